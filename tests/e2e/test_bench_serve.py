#!/usr/bin/env python3
"""test_bench_serve.py HEADRACE FAKE_SERVER: `headrace bench serve` on a server whose model takes 5 ms a step and whose tokens are
bytes, and `headrace bench --requests` on a tiny checkpoint."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HEADRACE, FAKE_SERVER = sys.argv[1:3]
TINY = pathlib.Path(__file__).resolve().parent.parent / "golden" / "tiny_llama.gguf"
STEP_MS = 5


def setUpModule():
    global server, url
    server = subprocess.Popen([FAKE_SERVER, "0", str(STEP_MS), "16"], stdout=subprocess.PIPE, text=True)
    url = re.search(r"http://\S+", server.stdout.readline()).group()


def tearDownModule():
    server.terminate()
    server.wait(30)
    server.stdout.close()


def bench(*args, code=0):
    done = subprocess.run([HEADRACE, "bench", *map(str, args)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, f"{args}: exit {done.returncode}: {done.stderr}{done.stdout}"
    return done


def serve(*args):
    return json.loads(bench("serve", "--url", url, "--json", "-", *args).stdout)


class Serve(unittest.TestCase):
    def test_lengths_and_times_are_what_was_asked_and_what_the_server_takes(self):
        got = serve("--num-requests", 12, "--concurrency", 4, "--prompt-tokens", 50, "--output-tokens", 20)
        self.assertEqual((got["completed"], got["failed"], got["errors"]), (12, 0, {}))
        self.assertEqual((got["prompt_tokens"], got["output_tokens"]), (12 * 50, 12 * 20))
        self.assertEqual(got["tokens_counted_by"], "usage")
        self.assertEqual(got["config"]["model"], "fake-model")
        self.assertEqual(got["peak_concurrency"], 4)
        self.assertGreaterEqual(got["ttft_ms"]["min"], STEP_MS)
        self.assertGreaterEqual(got["tpot_ms"]["min"], STEP_MS * 0.9)
        self.assertEqual(got["itl_ms"]["count"], 12 * 19)
        self.assertAlmostEqual(got["e2e_ms"]["mean"], got["ttft_ms"]["mean"] + 19 * got["tpot_ms"]["mean"], delta=0.01)
        self.assertAlmostEqual(got["output_tokens_per_s"], 240 / got["duration_s"], delta=0.1)

    def test_chats_with_shared_prefixes_find_them_in_the_servers_cache(self):
        got = serve("--endpoint", "chat", "--num-requests", 6, "--concurrency", 1, "--prompt-tokens", 20, "--output-tokens", 4,
                    "--shared-prefix", 160, "--prefixes", 1)
        template = len("<user>") + len("\n<assistant>")
        # The space between prefix and prompt is a token where a byte is one.
        self.assertEqual(got["prompt_tokens"], 6 * (180 + 1 + template))
        self.assertGreaterEqual(got["cached_tokens"], 5 * 160)

    def test_lengths_can_come_from_a_file_and_goals_are_judged(self):
        with tempfile.TemporaryDirectory() as folder:
            lengths = pathlib.Path(folder) / "lengths.json"
            lengths.write_text(json.dumps({"prompt": [10, 30, 20], "output": [3, 40, 5]}))
            got = serve("--requests", lengths, "--rate", 50, "--arrivals", "constant", "--goal-e2e-ms", STEP_MS * 30)
            self.assertEqual((got["prompt_tokens"], got["output_tokens"]), (60, 48))
            self.assertAlmostEqual(got["good_share"], 2 / 3, places=3)

    def test_a_sweep_ends_between_a_rate_that_is_met_and_one_that_is_not(self):
        with tempfile.TemporaryDirectory() as folder:
            html = pathlib.Path(folder) / "report.html"
            # An answer takes 20 steps, 100 ms, alone; 16 at once are served: a queue forms at some 160 a second.
            got = serve("--num-requests", 120, "--prompt-tokens", 8, "--output-tokens", 20, "--goal-ttft-ms", 60, "--sweep",
                        "--goal-share", 0.9, "--html", html)
            sweep = got["sweep"]
            self.assertEqual(sweep["points"][0]["rate"], "inf")
            self.assertGreater(sweep["best_rate"], 1)
            for point in sweep["points"][1:]:
                self.assertEqual(point["good_share"] >= 0.9, point["rate"] <= sweep["best_rate"] + 1e-4, point["rate"])
            page = html.read_text()
            self.assertEqual(page.count("<svg"), 8)
            self.assertNotIn("nan", page)

    def test_control_c_reports_what_was_measured(self):
        with subprocess.Popen([HEADRACE, "bench", "serve", "--url", url, "--num-requests", "1000", "--concurrency", "2", "--output-tokens",
                               "20", "--json", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            time.sleep(3)
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=30)
            self.assertEqual(process.returncode, 0, errors)
        got = json.loads(out)
        self.assertTrue(got["interrupted"])
        self.assertGreater(got["completed"], 0)
        self.assertLess(got["completed"], 1000)

    def test_what_the_server_refuses_is_a_failure_and_not_the_end(self):
        done = bench("serve", "--url", url, "--model", "another", "--num-requests", 3, "--json", "-", code=4)
        got = json.loads(done.stdout)
        self.assertEqual(got["errors"]["http_status"]["count"], 3)
        self.assertIn("404", got["errors"]["http_status"]["example"])
        self.assertIn("no request was answered", done.stderr)

    def test_wrong_use_exits_2_and_nobody_there_4(self):
        for wrong in [[], ["--url", "https://127.0.0.1"], ["--url", "ftp://x"], ["--url", url, "--sweep"], ["--url", url, "--rate", "0"],
                      ["--url", url, "--duration", "1"], ["--url", url, "--extra-body", "[]"], ["--url", url, "--burstiness", "1"],
                      ["--url", url, "--api-key", "a b"], ["--url", url, "--concurrency", "0"]]:
            bench("serve", *wrong, code=2)
        bench("serve", "--url", url, "--requests", os.devnull, code=3)
        bench("serve", "--url", "http://127.0.0.1:1", code=4)


class Requests(unittest.TestCase):
    def run_lengths(self, *args):
        with tempfile.TemporaryDirectory() as folder:
            lengths = pathlib.Path(folder) / "lengths.json"
            lengths.write_text(json.dumps({"prompt": [5, 30, 17, 9], "output": [12, 1, 3, 8]}))
            return json.loads(bench(TINY, "--requests", lengths, "--json", *args).stdout)

    def test_the_engine_answers_all_and_says_how_full_the_cache_was(self):
        got = self.run_lengths("--max-seqs", 2)
        self.assertEqual((got["completed"], got["prompt_tokens"], got["output_tokens"]), (4, 61, 24))
        self.assertEqual(got["computed_tokens"], 61 + 24 - 4)  # the last token of an answer is not computed
        self.assertEqual(got["preemptions"], 0)
        self.assertEqual(got["longest_request"], 31)
        self.assertTrue(0 < got["kv_use_if_context_reserved"] <= got["kv_use_if_longest_reserved"] < got["kv_use"] <= 1)
        for name in ["ttft_ms", "tpot_ms", "e2e_ms"]:
            self.assertGreater(got[name]["mean"], 0)

    def test_static_batches_compute_padding_and_rows_that_have_ended(self):
        got = self.run_lengths("--static", 2)
        self.assertEqual((got["completed"], got["prompt_tokens"], got["output_tokens"]), (4, 61, 24))
        self.assertEqual(got["computed_tokens"], 2 * (30 + 11) + 2 * (17 + 7))
        self.assertEqual(got["steps"], 1 + 11 + 1 + 7)

    def test_limit_takes_the_first_and_options_of_the_other_way_are_refused(self):
        self.assertEqual(self.run_lengths("--limit", 2)["prompt_tokens"], 35)
        for wrong in [["--static", "2"], ["--max-seqs", "2"], ["--limit", "1"], ["--requests", os.devnull, "--batch", "2"],
                      ["--requests", os.devnull, "--static", "2", "--max-seqs", "2"]]:
            bench(TINY, *wrong, code=2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
