"""What bench/cpu.py has measured as Markdown: figures, ratios and shares beside what they must reach.

A figure is the median over the rounds, with the least and the most. A ratio is the median of the ratios of the same round, a share that
of the shares of the roof that the same process measured: the machine's speed drifts, and two medians may come from different minutes.
"""
import statistics

# To llama.cpp in the same run.
RATIOS = {
    "Q4_1": {"prefill": 4.8, "b1": 2.0, "b4": 3.5, "b16": 4.5, "long prefill": 2.0, "long decode": 1.5},
    "Q4_0": {"prefill": 1.9, "b1": 1.5, "b4": 2.2, "b16": 3.0},
    "Q8_0": {"prefill": 2.3, "b1": 1.4, "b4": 2.0, "b16": 2.5},
    "BF16": {"prefill": 1.3, "b1": 1.1, "b4": 1.5, "b16": 1.8},
    "Gemma": {"prefill": 2.5, "b1": 1.5, "b4": 2.5, "b16": 3.0},
}
OPENVINO_RATIOS = {"Q4_1": {"prefill": 1.1}}
PREFILL_SHARES = {"int8": 0.40, "bf16": 0.60}  # of the arithmetic peak, end to end
GEMM_SHARE = 0.60
READ_SHARE = 0.75  # of the memory's read bandwidth, batch 1
START_SECONDS = 0.4
QUIET = 0.1  # of a processor, for others
PEERS = {"llama.cpp": RATIOS, "OpenVINO GenAI": OPENVINO_RATIOS}
SPEED_ROWS = ("prefill", "b1", "b4", "b16", "long prefill", "long decode")
BATCHES = {"b1": 1, "b4": 4, "b16": 16}


def spread(values, form="{:,.0f}", scale=1.0):
    """1,612 (1,580-1,640)"""
    if not values:
        return "-"
    low, middle, high = (form.format(v * scale) for v in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low}-{high})"


def verdict(*pairs):
    """What is missing to the targets, as a part of them: pairs of a value and its target, either of them None when there is none."""
    known = [(value, target) for value, target in pairs if target is not None]
    if not known:
        return ""
    if any(value is None for value, _ in known):
        return "not measured"
    short = max(1 - value / target for value, target in known)
    return "met" if short <= 0 else f"missed by {short:.1%}"


def median(values):
    return statistics.median(values) if values else None


def speeds(record, file, row, program):
    """{round: sample}"""
    return {s["round"]: s for s in record["samples"] if (s["file"], s["row"], s["program"]) == (file, row, program)}


def ratios(ours, theirs):
    return [ours[n]["tokens_per_s"] / theirs[n]["tokens_per_s"] for n in sorted(ours) if n in theirs]


def arithmetic_of(file, roof):
    """The multiply-adds that a file's weights go through; without bf16 instructions they are float32's."""
    wanted = "bf16" if file["arithmetic"] == "bf16" else "int8"
    return wanted if roof[wanted] else "f32"


def share_of(record, row, sample):
    """(kind of roof, share). A prompt's multiply-adds are those of the layers for every token and of the head once; a decode step reads
    every weight once."""
    file, roof = record["files"][sample["file"]], sample["roof"]
    if row == "prefill":
        kind, tokens = arithmetic_of(file, roof), sample["prompt_tokens"]
        operations = 2 * (file["layer_parameters"] * tokens + file["head_parameters"])
        return kind, operations * sample["tokens_per_s"] / tokens * 1e-12 / roof[kind]
    return "read", file["weight_bytes"] * sample["tokens_per_s"] / BATCHES[row] * 1e-9 / roof["read"]


def table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def speed_line(record, file, row, peer):
    ours, theirs = speeds(record, file, row, "Headrace"), speeds(record, file, row, peer)
    against, target = ratios(ours, theirs), PEERS[peer].get(file, {}).get(row)
    # A share is of Headrace alone: it stands beside the first peer.
    shares = [share_of(record, row, s) for s in ours.values()] if peer == "llama.cpp" and not row.startswith("long") else []
    kind = shares[0][0] if shares else ""
    share_target = PREFILL_SHARES.get(kind) if row == "prefill" else READ_SHARE if row == "b1" and shares else None
    values = [s for _, s in shares]
    return [record["files"][file]["title"], record["titles"][row], spread([s["tokens_per_s"] for s in ours.values()]), peer,
            spread([s["tokens_per_s"] for s in theirs.values()]), spread(against, "{:.2f}"), f"{target}" if target else "",
            f"{spread(values, '{:.0f}', 100)}% of {kind}" if shares else "", f"{share_target:.0%}" if share_target else "",
            verdict((median(against), target), (median(values), share_target))]


def speed_table(record):
    rows = []
    for row_file in record["files"]:
        for row in SPEED_ROWS:
            rows += [speed_line(record, row_file, row, peer) for peer in PEERS if speeds(record, row_file, row, peer) or
                     (peer == "llama.cpp" and speeds(record, row_file, row, "Headrace"))]
    header = ["file", "row", "Headrace, tokens/s", "peer", "its tokens/s", "ratio", "wanted", "share of the roof", "wanted", ""]
    return table(header, rows) if rows else ""


def single_table(record):
    """Start and memory: less is better, no peer."""
    rows = []
    for name, file in record["files"].items():
        start = [s["seconds"] for s in speeds(record, name, "start", "Headrace").values()]
        if start:
            rows.append([file["title"], f"process start to the first token of {record['shapes']['start_prompt']}, s", spread(start, "{:.3f}"),
                         f"{START_SECONDS}", verdict((1 / median(start), 1 / START_SECONDS))])
        for tokens in sorted({s["tokens"] for s in record["samples"] if (s["file"], s["row"]) == (name, "memory")}):
            samples = [s for s in record["samples"] if (s["file"], s["row"]) == (name, "memory") and s["tokens"] == tokens]
            # The limit holds for the highest.
            highest, limit = max(s["bytes"] for s in samples), samples[0]["limit"]
            rows.append([file["title"], f"peak memory of a run of {tokens:,} tokens, MB", spread([s["bytes"] for s in samples], "{:.0f}", 1e-6),
                         f"{limit * 1e-6:.0f}", verdict((1 / highest, 1 / limit))])
    return table(["file", "what", "measured", "at most", ""], rows) if rows else ""


def gemm_table(record):
    rows, samples = [], [s for s in record["samples"] if s["row"] == "gemm"]
    for case in dict.fromkeys(s["case"] for s in samples):
        of = [s for s in samples if s["case"] == case]
        shares = [s["top_per_s"] / s["peak"] for s in of]
        rows.append([case, spread([s["top_per_s"] for s in of], "{:.3f}"), f"{spread(shares, '{:.0f}', 100)}% of {of[0]['arithmetic']}",
                     f"{GEMM_SHARE:.0%}", verdict((median(shares), GEMM_SHARE))])
    return table(["GEMM alone", "TOP/s", "share of the peak", "wanted", ""], rows) if rows else ""


def roof_line(record):
    measured = dict.fromkeys(tuple(s["roof"].items()) for s in record["samples"] if "roof" in s)  # several samples may stand beside one
    roofs, parts = [dict(roof) for roof in measured], []
    for kind, unit in (("read", "GB/s read"), ("int8", "int8 TOP/s"), ("bf16", "bf16 TFLOP/s"), ("f32", "f32 TFLOP/s")):
        values = [r[kind] for r in roofs if r[kind]]
        if values:
            parts.append(f"{spread(values, '{:.1f}' if kind == 'read' else '{:.2f}')} {unit}")
    return f"Roof over the run, {record['facts']['threads']} threads: " + ", ".join(parts) + ".\n" if parts else ""


def others_line(record):
    """Others on the machine take most from programs whose threads wait for each other by spinning."""
    turns = {tuple(s[key] for key in ("round", "file", "program", "turn_seconds", "others")) for s in record["samples"]}
    others = [turn[-1] for turn in turns]
    return (f"Processors that others kept busy during a turn: {spread(others, '{:.2f}')}; above {QUIET} in {sum(o > QUIET for o in others)} "
            f"of {len(others)} turns.\n") if others else ""


def markdown(record):
    facts = record["facts"]
    rounds = len({s["round"] for s in record["samples"]})
    head = (f"{facts['date']}, {facts['processor']} ({', '.join(facts['features'])}), {facts['processors']} processors, {facts['threads']} threads, "
            f"{facts['isa']} kernels; {rounds} of {record['rounds']} rounds; Headrace {facts['headrace']}; {facts['peers']}.\n")
    if record["quick"]:
        head = "**A quick run on small shapes: its figures say nothing.**\n\n" + head
    failed = "".join(f"- not measured: {failure}\n" for failure in record["failures"])
    parts = (head, others_line(record), roof_line(record), speed_table(record), single_table(record), gemm_table(record), failed)
    return "\n".join(part for part in parts if part)
