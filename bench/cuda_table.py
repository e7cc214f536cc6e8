"""What bench/cuda.py has measured as Markdown: each row with its floor, vLLM's figure and the wanted one.

A floor is what no program can pass on this card: the bytes that must be read over the read roof, or the operations over the best product of
the roof, whichever takes longer. The peers' figures are fixed: made once on a card of this kind whose roofs stand in ANCHOR.
"""
import statistics

ANCHOR = {"read_gb_per_s": 4550, "copy_gb_per_s": 4300, "bf16_tflop_per_s": "700-800"}
# row: (transformers 5.17, vLLM 0.26 bf16, wanted, stretch), in the row's unit.
PEERS = {
    "decode b1": ("13-16", 203, 240, 255),
    "decode b4": ("67", 803, 950, None),
    "decode b16": ("268", 3122, 3700, None),
    "decode b64": ("1,012", 10455, 12500, None),
    "decode b256": ("", 22750, 26000, None),
    "decode b64 after 1024": ("893", 8240, 9500, None),
    "requests": ("399", 9983, 11800, 12400),
    "prefill 1 x 8000": ("239", 211, 195, None),
    "prefill 16 x 1024": ("", 380, 345, None),
    "start": ("", "22-82", 5, None),
}
UNITS = {"requests": "output tokens/s", "start": "s"}  # tokens/s and ms otherwise
# Llama-3-8B's shape, for the floors of attention.
LAYERS, HEADS, HEAD_DIM, HEAD_PARAMETERS = 32, 32, 128, 128256 * 4096
ATTENTION_WANTED = ((64e6, 0.65), (256e6, 0.85))  # from so many bytes of KV: this share of the read roof
SMALL_ATTENTION_US = 6


def unit_of(row):
    return UNITS.get(row, "ms" if row.startswith("prefill") else "tokens/s")


def better_is_less(row):
    return unit_of(row) in ("ms", "s")


def figures(record, row):
    """The row's figure of every repeat."""
    part = record["samples"][row]
    if row == "requests":
        return [run["output_tokens_per_s"] for run in part["samples"]]
    if row == "start":
        return [sample["seconds"] for sample in part["samples"]]
    if row.startswith("prefill"):
        return [sample["prefill_ms"] for sample in part["samples"]]
    return [part["batch"] * (part["new"] - 1) / (s["total_ms"] - s["first_tokens_ms"]) * 1e3 for s in part["samples"]]


def spread(values, form):
    low, middle, high = (form.format(v) for v in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low}-{high})"


def shown(row, values):
    form = "{:.2f}" if row == "start" or max(values) < 10 else "{:,.0f}" if max(values) >= 1000 or unit_of(row) != "ms" else "{:.1f}"
    return spread(values, form)


def described(record, row):
    return f"{shown(row, figures(record, row))} {unit_of(row)}"


def best_product(roof):
    return max((p["bf16_tflop_per_s"] for p in roof["matmul"]), default=0) * 1e12


def attention_flops(tokens):
    """Causal: each token with half of the prompt; two products."""
    return 2 * 2 * HEADS * HEAD_DIM * LAYERS * tokens * tokens / 2


def floor(record, row):
    """(figure, what bounds it), or None where nothing is known."""
    part, roof = record["samples"][row], record["roof"]
    read, product = roof["read_gb_per_s"] * 1e9, best_product(roof)
    if row == "start" or not product:
        return None
    of_model = next((p for p in record["samples"].values() if "flops_per_token" in p), None)
    if of_model is None:
        return None
    kv, flops = of_model["kv_bytes_per_token"], of_model["flops_per_token"]
    weights = flops  # bytes that a step reads: every weight of a product is two operations and two bytes; the embedding is looked up
    if row == "requests":
        prompts, outputs = part["lengths"]
        tokens = sum(prompts) + sum(outputs)
        contexts = sum(p * n + n * n / 2 for p, n in zip(prompts, outputs))
        seconds = {"reading": (max(outputs) * weights + contexts * kv) / read, "products": tokens * flops / product}
        bound = max(seconds, key=seconds.get)
        return sum(outputs) / seconds[bound], bound
    if row.startswith("prefill"):
        # The head is computed for the last token of each prompt alone.
        operations = part["batch"] * (part["prompt"] * (flops - 2 * HEAD_PARAMETERS) + 2 * HEAD_PARAMETERS + attention_flops(part["prompt"]))
        seconds = {"reading": weights / read, "products": operations / product}
        bound = max(seconds, key=seconds.get)
        return seconds[bound] * 1e3, bound
    context = part["prompt"] + part["new"] / 2
    seconds = {"reading": (weights + part["batch"] * context * kv) / read, "products": part["batch"] * flops / product}
    bound = max(seconds, key=seconds.get)
    return part["batch"] / seconds[bound], bound


def verdict(row, value, wanted):
    short = value / wanted - 1 if better_is_less(row) else 1 - value / wanted
    return "met" if short <= 0 else f"missed by {short:.1%}"


def against(row, value, other):
    """How much better than `other`: more than 1 is better."""
    if not isinstance(other, (int, float)):
        return ""
    return f"{other / value if better_is_less(row) else value / other:.2f}"


def number(value):
    return f"{value:,}" if isinstance(value, (int, float)) else value or ""


def table(header, rows):
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *rows]) + "\n"


def rows_table(record):
    lines = []
    for row, (transformers, vllm, wanted, stretch) in PEERS.items():
        wish = f"{number(wanted)} ({number(stretch)})" if stretch else number(wanted)
        if row not in record["samples"]:
            said = "not measured" if row not in record["left_out"] else "left out: no time"
            lines.append([row, unit_of(row), "-", "-", "-", transformers, number(vllm), "", wish, said])
            continue
        values = figures(record, row)
        middle = statistics.median(values)
        limit = floor(record, row)
        lines.append([row, unit_of(row), shown(row, values), f"{limit[0]:,.0f} ({limit[1]})" if limit else "-",
                      f"{(limit[0] / middle if better_is_less(row) else middle / limit[0]):.0%}" if limit else "-", transformers, number(vllm),
                      against(row, middle, vllm), wish, verdict(row, middle, wanted)])
    return table(["row", "unit", "Headrace", "floor", "reached", "transformers 5.17", "vLLM 0.26", "ratio to vLLM", "wanted (stretch)", ""], lines)


def attention_table(record):
    lines = []
    for row in record["attention"]:
        bytes_read = row["gb_per_s"] * row["median_us"] * 1e3
        share = next((want for size, want in reversed(ATTENTION_WANTED) if bytes_read >= 0.95 * size), None)
        if share is None:
            said, wish = ("met" if row["median_us"] <= SMALL_ATTENTION_US else "missed"), f"{SMALL_ATTENTION_US} us"
        else:
            said, wish = ("met" if row["share_of_roof"] >= share else "missed"), f"{share:.0%}"
        lines.append([row["case"], row["kernel"], f"{bytes_read * 1e-6:,.0f}", f"{row['median_us']:.1f}", f"{row['gb_per_s']:,.0f}",
                      f"{row['share_of_roof']:.0%}", wish, said])
    return table(["attention of one layer", "kernel", "MB read", "us", "GB/s", "of the read roof", "wanted", ""], lines)


def markdown(record):
    roof, facts = record["roof"], record["facts"]
    products = ", ".join(f"{p['bf16_tflop_per_s']:.0f} ({p['m']} x {p['n']} x {p['k']})" for p in roof.get("matmul", []))
    text = (f"`bench/cuda.py run`, {facts['date']}, Headrace {facts['headrace']}. {roof['card']}, driver {roof['driver']}, CUDA {roof['driver_cuda']}, "
            f"plug-in for {roof['plugin']}, {roof['sms']} multiprocessors, L2 {roof['l2_bytes'] / 2**20:.0f} MiB, memory "
            f"{roof['memory_bytes'] / 2**30:.0f} GiB. Llama-3-8B's shape, random bf16 weights, random prompts of new ids each time, greedy, "
            f"256 new tokens, median (least-most) of the repeats.\n\n"
            f"Roofs of the run: {roof['read_gb_per_s']:,.0f} GB/s read, {roof['copy_gb_per_s']:,.0f} GB/s copied, bf16 {products or '-'} TFLOP/s; an empty "
            f"kernel of a captured graph {roof['graph_overlapped_kernel_us']:.2f} us overlapped, {roof['graph_kernel_us']:.2f} us in turn. Those of the "
            f"peers' run: {ANCHOR['read_gb_per_s']:,}, {ANCHOR['copy_gb_per_s']:,} and {ANCHOR['bf16_tflop_per_s']}.\n\n")
    text += rows_table(record) + "\n"
    if record["attention"]:
        text += attention_table(record) + "\n"
    for check in record["checks"]:
        state = "skipped" if check["skipped"] else "passed" if check["exit"] == 0 else f"FAILED ({len(check['failed'])})"
        text += f"- {check['program']}: {state}{'; ' if check['said'] else ''}{'; '.join(check['said'])}\n"
    for failure in record["failures"]:
        text += f"- failed: {failure}\n"
    return text
