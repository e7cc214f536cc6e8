#!/usr/bin/env python3
"""Golden values: worked by hand from the definitions in cpu_table.py and docs/benchmarks.md."""
import unittest

import cpu_table

ROOF = {"read": 20.0, "int8": 2.4, "bf16": 1.2, "f32": 0.6}
FILE = {"title": "Q4_1 (as published)", "layer_parameters": 1_000_000_000, "head_parameters": 2_000_000_000, "weight_bytes": 100_000_000,
        "arithmetic": "int8"}


def sample(number, program, speed, row="prefill", **more):
    return {"round": number, "file": "Q4_1", "row": row, "program": program, "tokens_per_s": speed, "prompt_tokens": 4, "roof": ROOF,
            "turn_seconds": number, "others": 0.0, **more}


def record(*samples, **more):
    return {"files": {"Q4_1": FILE}, "samples": list(samples), "titles": {row: row for row in cpu_table.SPEED_ROWS},
            "shapes": {"start_prompt": 32}, "quick": False, "rounds": 2, "failures": [],
            "facts": {"threads": 2, "date": "", "processor": "", "features": [], "processors": 2, "isa": "", "headrace": "", "peers": ""}, **more}


class CpuTable(unittest.TestCase):
    def test_a_ratio_is_the_median_of_the_ratios_of_the_same_round(self):
        of = record(sample(0, "Headrace", 100), sample(1, "Headrace", 300), sample(0, "llama.cpp", 50), sample(1, "llama.cpp", 300))
        line = cpu_table.speed_line(of, "Q4_1", "prefill", "llama.cpp")
        self.assertEqual(line[2:6], ["200 (100-300)", "llama.cpp", "175 (50-300)", "1.50 (1.00-2.00)"])

    def test_a_round_that_one_side_lacks_makes_no_ratio(self):
        of = record(sample(0, "Headrace", 100), sample(1, "Headrace", 300), sample(1, "llama.cpp", 300))
        self.assertEqual(cpu_table.speed_line(of, "Q4_1", "prefill", "llama.cpp")[5], "1.00 (1.00-1.00)")

    def test_a_prompt_counts_the_layers_for_every_token_and_the_head_once(self):
        # 2 * (4 * 1e9 + 2e9) operations a prompt, 100 prompts of 4 tokens a second: 1.2e12 of 2.4e12
        self.assertEqual(cpu_table.share_of(record(), "prefill", sample(0, "Headrace", 400)), ("int8", 0.5))

    def test_bf16_weights_are_held_against_bf16_and_against_f32_where_there_is_none(self):
        of = record(files={"Q4_1": FILE | {"arithmetic": "bf16"}})
        self.assertEqual(cpu_table.share_of(of, "prefill", sample(0, "Headrace", 400)), ("bf16", 1.0))
        self.assertEqual(cpu_table.share_of(of, "prefill", sample(0, "Headrace", 400, roof=ROOF | {"bf16": None})), ("f32", 2.0))

    def test_a_decode_step_of_a_batch_reads_the_weights_once(self):
        # 400 tokens/s of four sequences: 100 steps of 0.1 GB, 10 of 20 GB/s
        self.assertEqual(cpu_table.share_of(record(), "b4", sample(0, "Headrace", 400, "b4")), ("read", 0.5))

    def test_the_verdict_is_that_of_the_target_that_is_missed_most(self):
        self.assertEqual(cpu_table.verdict((1.5, 2.0), (0.7, 0.75)), "missed by 25.0%")
        self.assertEqual(cpu_table.verdict((2.0, 2.0), (0.9, 0.75)), "met")
        self.assertEqual(cpu_table.verdict((2.0, None), (None, None)), "")
        self.assertEqual(cpu_table.verdict((3.0, 2.0), (None, 0.75)), "not measured")

    def test_memory_is_held_against_its_limit_by_the_highest_sample(self):
        runs = [sample(n, "Headrace", 0, "memory", tokens=640, bytes=peak, limit=200_000_000) for n, peak in enumerate((100_000_000, 250_000_000))]
        self.assertIn("| 175 (100-250) | 200 | missed by 20.0% |", cpu_table.single_table(record(*runs)))

    def test_a_failure_and_a_quick_run_show(self):
        page = cpu_table.markdown(record(sample(0, "Headrace", 100), quick=True, failures=["round 1: llama-bench ended with 1"]))
        self.assertIn("**A quick run", page)
        self.assertIn("- not measured: round 1: llama-bench ended with 1", page)
        self.assertIn("| not measured |", page)


if __name__ == "__main__":
    unittest.main()
