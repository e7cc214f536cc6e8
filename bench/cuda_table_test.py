#!/usr/bin/env python3
"""Golden values: worked by hand from the definitions in cuda_table.py."""
import unittest

import cuda_table

ROOF = {"card": "A card", "driver": "1.2", "driver_cuda": "13.0", "plugin": "cuda 13", "sms": 100, "l2_bytes": 50 << 20, "memory_bytes": 100 << 30,
        "read_gb_per_s": 4000.0, "copy_gb_per_s": 3900.0, "graph_overlapped_kernel_us": 1.0, "graph_kernel_us": 2.0, "launch_us": 3.0,
        "matmul": [{"m": 1, "n": 1, "k": 1, "bf16_tflop_per_s": 100.0}, {"m": 8192, "n": 8192, "k": 8192, "bf16_tflop_per_s": 800.0}]}
MODEL = {"kv_bytes_per_token": 100_000, "flops_per_token": 16e9}


def decode(batch, *totals, first_ms=100.0):
    return {"batch": batch, "prompt": 128, "new": 257, "samples": [{"prefill_ms": 50.0, "first_tokens_ms": first_ms, "total_ms": t} for t in totals], **MODEL}


def record(**samples):
    names = {"b1": "decode b1", "b256": "decode b256", "prefill": "prefill 1 x 8000", "requests": "requests", "start": "start"}
    return {"facts": {"date": "", "headrace": ""}, "roof": ROOF, "checks": [], "attention": [], "failures": [], "left_out": [],
            "samples": {names[name]: part for name, part in samples.items()}}


class CudaTable(unittest.TestCase):
    def test_a_decode_rate_leaves_out_the_first_tokens_and_their_time(self):
        # 256 further tokens of one sequence in 1,024 ms and in 2,048 ms
        self.assertEqual(cuda_table.figures(record(b1=decode(1, 1124.0, 2148.0)), "decode b1"), [250.0, 125.0])

    def test_a_decode_step_must_read_the_weights_once_and_each_sequence_its_own_keys(self):
        # 16 GB and 256.5 * 100 kB over 4 TB/s: 4.0064 ms
        figure, bound = cuda_table.floor(record(b1=decode(1, 1124.0)), "decode b1")
        self.assertAlmostEqual(figure, 1 / ((16e9 + 25.65e6) / 4e12))
        self.assertEqual(bound, "reading")

    def test_operations_bound_where_they_take_longer(self):
        # 4,096 sequences of 16 GFLOP over 800 TFLOP/s: 81.92 ms; their keys 105 GB, 30 ms
        of = record(b256=decode(4096, 1124.0))
        figure, bound = cuda_table.floor(of, "decode b256")
        self.assertAlmostEqual(figure, 50_000.0)
        self.assertEqual(bound, "products")

    def test_a_prompt_counts_the_head_once_and_attention_by_half(self):
        part = {"batch": 1, "prompt": 8000, "new": 1, "samples": [{"prefill_ms": 180.0, "first_tokens_ms": 0, "total_ms": 0}], **MODEL}
        head = 2 * 128256 * 4096
        attention = 4 * 32 * 128 * 32 * 8000 * 8000 / 2
        figure, _ = cuda_table.floor(record(prefill=part), "prefill 1 x 8000")
        self.assertAlmostEqual(figure, (8000 * (16e9 - head) + head + attention) / 800e12 * 1e3)

    def test_requests_take_as_many_steps_as_the_longest_answer(self):
        part = {"lengths": [[10, 20], [100, 200]], "samples": [{"output_tokens_per_s": 50.0}]}
        # 200 steps of 16 GB, and contexts of 10 * 100 + 5,000 and 20 * 200 + 20,000 tokens
        figure, bound = cuda_table.floor(record(requests=part, b1=decode(1, 1124.0)), "requests")
        self.assertAlmostEqual(figure, 300 / ((200 * 16e9 + 30_000 * 100_000) / 4e12))
        self.assertEqual(bound, "reading")

    def test_less_is_better_for_times_and_more_for_rates(self):
        self.assertEqual(cuda_table.verdict("decode b1", 240, 240), "met")
        self.assertEqual(cuda_table.verdict("decode b1", 120, 240), "missed by 50.0%")
        self.assertEqual(cuda_table.verdict("prefill 1 x 8000", 195, 195), "met")
        self.assertEqual(cuda_table.verdict("prefill 1 x 8000", 390, 195), "missed by 100.0%")
        self.assertEqual(cuda_table.against("start", 5.0, 22), "4.40")
        self.assertEqual(cuda_table.against("decode b1", 406, 203), "2.00")
        self.assertEqual(cuda_table.against("start", 5.0, "22-82"), "")

    def test_attention_is_held_against_the_share_that_its_size_asks_for(self):
        def row(case, megabytes, us):
            rate = megabytes * 1e6 / us * 1e-3
            return {"case": case, "kernel": "k", "median_us": us, "gb_per_s": rate, "share_of_roof": rate / 4000}
        of = record(b1=decode(1, 1124.0)) | {"attention": [row("small", 4, 7.0), row("middle", 64, 24.0), row("large", 1024, 320.0)]}
        lines = cuda_table.attention_table(of).splitlines()[2:]
        self.assertTrue(lines[0].endswith("| 6 us | missed |"))
        self.assertTrue(lines[1].endswith("| 67% | 65% | met |"))
        self.assertTrue(lines[2].endswith("| 80% | 85% | missed |"))

    def test_what_is_missing_shows(self):
        of = record(b1=decode(1, 1124.0)) | {"left_out": ["start"], "failures": ["decode b4: ended with 1"],
                                             "checks": [{"program": "x_test", "exit": 1, "failed": ["A.B"], "skipped": False, "said": []}]}
        page = cuda_table.markdown(of)
        self.assertIn("| start | s | - | - | - |  | 22-82 |  | 5 | left out: no time |", page)
        self.assertIn("| not measured |", page)
        self.assertIn("- x_test: FAILED (1)", page)
        self.assertIn("- failed: decode b4: ended with 1", page)


if __name__ == "__main__":
    unittest.main()
