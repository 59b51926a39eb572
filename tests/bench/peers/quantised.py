"""Is an encoder with 8-bit weights worth it?  Speed and loss on this CPU: `peers.py` runs it.

The model as PyTorch runs it in float32, and exported to ONNX with dynamic int8 weights for AVX2, by
sentence-transformers' own functions.  Both search the same documents by dot product.

By hand: PYTHON tests/bench/peers/quantised.py FOLDER OUT.json, PYTHON of its environment.
"""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.backend import export_dynamic_quantized_onnx_model
from timing import Work, evenly, give, given, rates

PACKAGES = ("sentence-transformers", "optimum-onnx", "onnxruntime", "transformers", "torch")


Vectors = np.ndarray[Any, Any]
FULL, SMALL = "PyTorch, float32", "ONNX, int8"


def quantised(work: Work) -> SentenceTransformer:
    folder = work.folder / "model"  # a copy: the exported files are written beside the weights
    shutil.copytree(work.settings["model"], folder, dirs_exist_ok=True)
    exported = SentenceTransformer(
        str(folder), device="cpu", backend="onnx", model_kwargs={"export": True}
    )
    export_dynamic_quantized_onnx_model(exported, "avx2", str(folder))
    name = next((folder / "onnx").glob("*quint8_avx2*")).name
    return SentenceTransformer(
        str(folder), device="cpu", backend="onnx", model_kwargs={"file_name": f"onnx/{name}"}
    )


def run(work: Work, queries: Vectors, documents: Vectors) -> dict[str, list[str]]:
    """query_id -> the k nearest documents."""
    places = np.argsort(-(queries @ documents.T), axis=1, kind="stable")[:, : work.settings["k"]]
    return {
        query["id"]: [work.documents[place]["id"] for place in row]
        for query, row in zip(work.queries, places.tolist(), strict=True)
    }


if __name__ == "__main__":
    work = given()
    texts, claims = ([one["text"] for one in some] for some in (work.documents, work.queries))
    full, small = SentenceTransformer(work.settings["model"], device="cpu"), quantised(work)
    encoders = {
        FULL: lambda texts: full.encode(texts, batch_size=32, normalize_embeddings=True),
        SMALL: lambda texts: small.encode(texts, batch_size=32, normalize_embeddings=True),
    }
    speed = rates(encoders, evenly(texts, work.settings["sample"]))
    # In float32 the vectors that were handed over are those that this model makes.
    runs = {
        FULL: run(work, np.load(work.folder / "query_vectors.npy"), work.vectors),
        SMALL: run(work, encoders[SMALL](claims), encoders[SMALL](texts)),
    }
    give({"rates": speed, "runs": runs}, PACKAGES)
