#!/usr/bin/env python3
"""make_embedding_goldens.py FOLDER: writes tests/golden/minilm_embeddings.json.

Reference: the `sentence-transformers` library with all-MiniLM-L6-v2 (FOLDER, in float32) on the CPU. Holds sentences with
their vectors, and a small retrieval set: for each query the passages from best to worst by cosine. Neighbours in a ranking
are at least 2e-5 apart, so that float32 rounding cannot exchange them; the script refuses texts for which they are not.
Needs: pip install torch sentence-transformers
"""
import json
import pathlib
import sys

import numpy
import sentence_transformers
import transformers

SENTENCES = [
    "A headrace leads water to the turbine.",
    "The mill stood still all summer.",
    "What is a mill race?",
    "Ein Mühlgraben führt Wasser zum Mühlrad.",
    "水车把河水引到田里。",
    "def add(a, b):\n    return a + b",
    "SHOUTING, and then: whispering...",
    "naïve café résumé coöperate",
    "1234567890 3.14159 -42 1e-9",
    "👩‍👩‍👧 goes 🏔️ hiking",
    " \t leading and trailing white space \n",
    "",
    "a",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "The [MASK] token and [CLS] in plain text.",
    # Beyond the 256 tokens that the model takes.
    "The river falls nine metres over two kilometres, and the canal takes a third of its water. " * 30,
]
PASSAGES = [
    "Bread rises because yeast turns sugar into carbon dioxide, which the dough holds in bubbles.",
    "A sourdough starter must be fed with flour and water every day at room temperature.",
    "Knead the dough until it is smooth and springs back when pressed with a finger.",
    "Photosynthesis stores the energy of sunlight in sugar, in the chloroplasts of green leaves.",
    "Oak trees drop their leaves in autumn and grow new ones from buds in spring.",
    "The heart pumps blood through the lungs, where it takes up oxygen.",
    "Regular exercise lowers blood pressure and the risk of heart disease.",
    "A vaccine shows the immune system a harmless part of a virus, so that it can recognise the real one.",
    "The Moon's gravity raises two bulges of water, which we see as high tides twice a day.",
    "Jupiter is the largest planet of the solar system and has dozens of moons.",
    "A black hole bends light so strongly that nothing inside its horizon can come out.",
    "A hash table finds a key in constant time on average, by an array indexed with the key's hash.",
    "Binary search halves a sorted list at each step and needs a logarithmic number of comparisons.",
    "A deadlock happens when two threads each hold a lock that the other one wants.",
    "The French Revolution began in 1789 with the storming of the Bastille.",
    "The Roman Empire in the west fell in the fifth century after years of civil war and invasion.",
    "Inflation is a general rise of prices, which lowers what a unit of money buys.",
    "A central bank raises interest rates to slow borrowing and spending.",
    "A violin's strings are tuned in fifths: G, D, A and E.",
    "The offside rule in football stops attackers from waiting behind the last defender.",
]
QUERIES = [
    "Why does bread dough get bigger?",
    "How do plants make food from light?",
    "What keeps the cardiovascular system healthy?",
    "Why does the sea rise and fall?",
    "fast lookup data structure",
    "two threads wait for each other forever",
    "What happened in France in 1789?",
    "How are prices and interest rates connected?",
]
MIN_GAP = 2e-5
DIGITS = 6


def main() -> None:
    model = sentence_transformers.SentenceTransformer(sys.argv[1], device="cpu")
    vectors = model.encode(SENTENCES, batch_size=4)
    queries, passages = model.encode(QUERIES), model.encode(PASSAGES)
    rankings = []
    for query, scores in zip(QUERIES, queries @ passages.T):
        order = numpy.argsort(-scores)
        gap = numpy.min(-numpy.diff(scores[order]))
        if gap < MIN_GAP:
            sys.exit(f"{query}: two passages are {gap:.2g} apart, want {MIN_GAP}: change a text")
        rankings.append([int(index) for index in order])
    golden = {
        "model": "sentence-transformers/all-MiniLM-L6-v2",
        "reference": f"sentence-transformers {sentence_transformers.__version__}, transformers {transformers.__version__}",
        "sentences": [
            {"text": text, "embedding": [round(float(x), DIGITS) for x in vector]}
            for text, vector in zip(SENTENCES, vectors)
        ],
        "passages": PASSAGES,
        "retrieval": [{"query": query, "ranking": ranking} for query, ranking in zip(QUERIES, rankings)],
    }
    path = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/minilm_embeddings.json"
    with path.open("w") as file:
        file.write(json.dumps(golden, ensure_ascii=False).replace('{"text"', '\n{"text"').replace('{"query"', '\n{"query"') + "\n")
    print(f"{path}: {len(SENTENCES)} sentences, {len(QUERIES)} rankings of {len(PASSAGES)}")


if __name__ == "__main__":
    main()
