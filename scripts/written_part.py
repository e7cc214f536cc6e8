"""The part of a page in docs/ that a program writes, between two lines that name the program."""


def replace(page, program, text):
    """Puts `text`, whole lines, between the two lines of `program` in the file `page`."""
    begin, end = (f"<!-- written by {program}: {what} -->\n" for what in ("begin", "end"))
    old = page.read_text()
    first, last = old.find(begin), old.find(end)
    if first < 0 or last < first:
        raise SystemExit(f"error: {page}: want the lines {begin.strip()} and {end.strip()}")
    page.write_text(old[:first + len(begin)] + text + old[last:])
