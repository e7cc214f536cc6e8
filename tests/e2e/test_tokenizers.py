"""`headrace tokenize` against the library `tokenizers`: ids, offsets and decoded texts of generated strings, on small
vocabularies that are trained here and on three large published ones (HEADRACE_SHARED names the folder that holds
data/tokenizers; skipped without it)."""
import gzip
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import compare_tokenizers as compare  # noqa: E402
import tokenizers  # noqa: E402

BIN = os.environ.get("HEADRACE_BIN", "")
VOCABULARIES = pathlib.Path(os.environ.get("HEADRACE_SHARED") or ROOT.parent / "shared") / "data" / "tokenizers"
SEED = 5


@unittest.skipUnless(os.path.isfile(BIN), "HEADRACE_BIN must name a file")
class Tokenizers(unittest.TestCase):
    def check(self, differences):
        self.assertFalse(differences, f"{len(differences)} differ, the first:\n" + "\n".join(differences[:8]))

    def check_large(self, name):
        packed = VOCABULARIES / name / "tokenizer.json.gz"
        if not packed.is_file():
            self.skipTest(f"{packed} is not there")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokenizer.json")
            with gzip.open(packed) as source, open(path, "wb") as to:
                shutil.copyfileobj(source, to)
            library = tokenizers.Tokenizer.from_file(path)
            texts = list(compare.strings(20000, SEED, compare.special_tokens(library)))
            self.check(compare.compare_with_library(BIN, folder, library, texts))
            self.check(compare.compare_with_library(BIN, folder, library, compare.long_words(1 << 20)))
            self.check(compare.compare_broken(BIN, folder, library, SEED))

    def test_llama_3_1(self):
        self.check_large("llama3_1")

    def test_qwen_3(self):
        self.check_large("qwen3")

    def test_gemma_3(self):
        self.check_large("gemma3")

    def test_small_vocabularies_with_many_components(self):
        for name, library in compare.synthetic().items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                library.save(os.path.join(folder, "tokenizer.json"))
                texts = list(compare.strings(1500, SEED, compare.special_tokens(library) + ["<ADD>", "word", "世界"]))
                texts += compare.long_words(4000)
                self.check(compare.compare_with_library(BIN, folder, library, texts))
                self.check(compare.compare_broken(BIN, folder, library, SEED))


if __name__ == "__main__":
    unittest.main()
