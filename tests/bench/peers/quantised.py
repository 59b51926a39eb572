"""Is an encoder with 8-bit weights worth it?  Speed and loss on this CPU: `peers.py` runs it.

The model as PyTorch runs it in float32, exported to ONNX, and that with dynamic int8 weights made
for AVX2; all by sentence-transformers' own functions.  Each encodes the same documents and claims,
and searches by dot product.

By hand: PYTHON tests/bench/peers/quantised.py FOLDER OUT.json, PYTHON of its environment.
"""

from __future__ import annotations

import shutil

import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.backend import export_dynamic_quantized_onnx_model
from timing import Work, evenly, give, given, rates

PACKAGES = ("sentence-transformers", "optimum-onnx", "onnxruntime", "transformers", "torch")


def models(work: Work) -> dict[str, SentenceTransformer]:
    folder = work.folder / "model"  # a copy: the exported files are written beside the weights
    shutil.copytree(work.settings["model"], folder, dirs_exist_ok=True)
    exported = SentenceTransformer(
        str(folder), device="cpu", backend="onnx", model_kwargs={"export": True}
    )
    exported.save_pretrained(str(folder))
    export_dynamic_quantized_onnx_model(exported, "avx2", str(folder))
    name = next((folder / "onnx").glob("*quint8_avx2*")).name
    small = SentenceTransformer(
        str(folder), device="cpu", backend="onnx", model_kwargs={"file_name": f"onnx/{name}"}
    )
    plain = SentenceTransformer(work.settings["model"], device="cpu")
    return {"PyTorch, float32": plain, "ONNX, float32": exported, "ONNX, int8": small}


def run(work: Work, model: SentenceTransformer) -> dict[str, list[str]]:
    """query_id -> the k nearest documents."""
    made = [
        model.encode([one["text"] for one in some], batch_size=32, normalize_embeddings=True)
        for some in (work.queries, work.documents)
    ]
    places = np.argsort(-(made[0] @ made[1].T), axis=1, kind="stable")[:, : work.settings["k"]]
    return {
        query["id"]: [work.documents[place]["id"] for place in row]
        for query, row in zip(work.queries, places.tolist(), strict=True)
    }


if __name__ == "__main__":
    work = given()
    texts = evenly([document["text"] for document in work.documents], work.settings["sample"])
    kinds = models(work)
    encoders = {
        name: lambda texts, model=model: model.encode(texts, batch_size=32)
        for name, model in kinds.items()
    }
    figures = {"rates": rates(encoders, texts)}
    # ONNX in float32 finds what PyTorch finds: only its speed is of interest.
    found = {name: run(work, model) for name, model in kinds.items() if name != "ONNX, float32"}
    give({**figures, "runs": found}, PACKAGES)
