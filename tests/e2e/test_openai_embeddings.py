"""The official OpenAI client against an embedder: vectors of sentence-transformers, as the client asks for them (base64)."""
import json
import math
import os
import pathlib
import unittest

import openai

from served import BIN, KEY, Served

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
MINILM = pathlib.Path(os.environ.get("HEADRACE_MINILM") or CACHE / "headrace" / "minilm")
GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden" / "minilm_embeddings.json"
SKIP = "" if os.path.isfile(BIN) and (MINILM / "model.safetensors").is_file() else "HEADRACE_MINILM names no folder"


def setUpModule():
    if SKIP:
        raise unittest.SkipTest(SKIP)
    global server, client, model
    server = Served(model=str(MINILM)).__enter__()
    client = openai.OpenAI(base_url=server.url + "/v1", api_key=KEY, max_retries=0, timeout=300)
    model = client.models.list().data[0].id


def tearDownModule():
    if not SKIP:
        client.close()
        server.__exit__()


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(x * x for x in b))


class Embeddings(unittest.TestCase):
    def test_a_batch_has_the_vectors_of_the_reference(self):
        sentences = [item for item in json.loads(GOLDEN.read_text())["sentences"] if item["text"]]
        texts = [item["text"] for item in sentences]
        for options in ({}, {"encoding_format": "float"}):
            answer = client.embeddings.create(model=model, input=texts, **options)
            self.assertEqual([item.index for item in answer.data], list(range(len(texts))))
            for item, want in zip(answer.data, sentences):
                self.assertGreater(cosine(item.embedding, want["embedding"]), 0.9999, want["text"])
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens)

    def test_dimensions_cut_and_scale(self):
        whole = client.embeddings.create(model=model, input="water").data[0].embedding
        cut = client.embeddings.create(model=model, input="water", dimensions=64).data[0].embedding
        self.assertEqual(len(cut), 64)
        self.assertAlmostEqual(sum(x * x for x in cut), 1, places=5)
        self.assertGreater(cosine(whole[:64], cut), 0.999999)

    def test_what_it_refuses_is_a_bad_request(self):
        for options in ({"input": ""}, {"input": []}, {"input": "a", "dimensions": 385}, {"input": [[1, 99999]]}):
            with self.assertRaises(openai.BadRequestError):
                client.embeddings.create(model=model, **options)
        with self.assertRaises(openai.NotFoundError):
            client.embeddings.create(model="another", input="a")
        with self.assertRaises(openai.BadRequestError) as refused:
            client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hi"}])
        self.assertEqual(refused.exception.code, "unsupported_model")


if __name__ == "__main__":
    unittest.main()
