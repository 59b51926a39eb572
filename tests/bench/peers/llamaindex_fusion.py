"""LlamaIndex's hybrid search, as its documentation shows it: `peers.py` runs it.

    QueryFusionRetriever (reciprocal_rerank, no rewrites) over VectorStoreIndex and BM25Retriever

The index keeps its vectors in a SimpleVectorStore by default.  FAISS is the documented faster way,
and has its own line; with inner products, for the fusion takes a higher score for a better one.
Its retrievers run in an event loop, as they do by default; without one they are no faster.

By hand: PYTHON tests/bench/peers/llamaindex_fusion.py FOLDER OUT.json, PYTHON of its environment.
"""

from __future__ import annotations

from collections.abc import Iterable

import faiss
import Stemmer
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import QueryBundle, TextNode
from llama_index.embeddings.huggingface import HuggingFaceEmbedding
from llama_index.retrievers.bm25 import BM25Retriever
from llama_index.vector_stores.faiss import FaissVectorStore
from timing import Contender, Work, compared, cosine, given

PACKAGES = (
    "llama-index-core", "llama-index-retrievers-bm25", "llama-index-embeddings-huggingface",
    "llama-index-vector-stores-faiss", "bm25s", "faiss-cpu", "numpy", "torch",
    "sentence-transformers",
)  # fmt: skip


def contenders(work: Work) -> Iterable[Contender]:
    k = work.settings["k"]
    model = HuggingFaceEmbedding(model_name=work.settings["model"], device="cpu", normalize=True)
    text = work.queries[0]["text"]
    assert cosine(model.get_query_embedding(text), work.held[text]) > 0.9999, "another encoder"
    bm25 = BM25Retriever.from_defaults(
        nodes=nodes(work), similarity_top_k=k, stemmer=Stemmer.Stemmer("english"), language="en"
    )
    flat = FaissVectorStore(faiss_index=faiss.IndexFlatIP(work.vectors.shape[1]))
    for name, storage in {
        "LlamaIndex, hybrid": None,
        "LlamaIndex, hybrid, FAISS": StorageContext.from_defaults(vector_store=flat),
    }.items():
        index = VectorStoreIndex(nodes(work), embed_model=model, storage_context=storage)
        both = QueryFusionRetriever(
            [index.as_retriever(similarity_top_k=k), bm25],
            llm=MockLLM(),
            mode="reciprocal_rerank",
            num_queries=1,
            similarity_top_k=k,
        )

        def ids(query: str | QueryBundle, both=both) -> list[str]:
            return [hit.node.node_id for hit in both.retrieve(query)]

        def found(query: str, ids=ids) -> list[str]:
            return ids(QueryBundle(query, embedding=work.held[query]))

        yield Contender(name, ids, found)


def nodes(work: Work) -> list[TextNode]:
    """With their vectors, so that no index encodes them."""
    return [
        TextNode(id_=document["id"], text=document["text"], embedding=vector)
        for document, vector in zip(work.documents, work.vectors.tolist(), strict=True)
    ]


if __name__ == "__main__":
    work = given()
    compared(work, contenders(work), PACKAGES)
