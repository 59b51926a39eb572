"""Texts a second of raglab's encoder beside plain sentence-transformers: `peers.py` runs it.

By hand: python tests/bench/peers/encoding.py FOLDER OUT.json
"""

from __future__ import annotations

from sentence_transformers import SentenceTransformer
from timing import evenly, give, given, rates

from raglab.ingest.embed import SentenceEncoder, bundled_model

if __name__ == "__main__":
    work = given()
    texts = evenly([document["text"] for document in work.documents], work.settings["sample"])
    plain, ours = SentenceTransformer(str(bundled_model()), device="cpu"), SentenceEncoder()
    encoders = {
        "sentence-transformers": lambda texts: plain.encode(texts, batch_size=32),
        "raglab, sentence vectors": lambda texts: ours.encode(texts, tokens=False),
        "raglab, with token vectors": lambda texts: ours.encode(texts, tokens=True),
    }
    give({"rates": rates(encoders, texts)}, ("torch", "sentence-transformers"))
