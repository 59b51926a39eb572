"""LangChain's hybrid search, as its documentation shows it: `peers.py` runs it.

    EnsembleRetriever (RRF, weights 0.5 and 0.5) over FAISS.from_embeddings and BM25Retriever

BM25Retriever cuts at blanks by default, and returns 4 hits.  Its documentation recommends a
function that finds words, so there is a second line with one.  Both retrievers are of
langchain-community, which is no longer maintained; nothing official has taken their place.

By hand: PYTHON tests/bench/peers/langchain_ensemble.py FOLDER OUT.json, PYTHON of its environment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.retrievers import BM25Retriever
from langchain_community.vectorstores import FAISS
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_huggingface import HuggingFaceEmbeddings
from timing import Contender, Search, Work, compared, cosine, given

PACKAGES = (
    "langchain-classic", "langchain-community", "langchain-huggingface", "langchain-core",
    "rank-bm25", "faiss-cpu", "numpy", "torch", "sentence-transformers",
)  # fmt: skip


@dataclass(frozen=True)
class Held(Embeddings):
    """Answers with vectors that were made beforehand."""

    vectors: dict[str, list[float]]

    def embed_query(self, text: str) -> list[float]:
        return self.vectors[text]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise NotImplementedError("the documents' vectors are handed over")


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def ensemble(work: Work, embeddings: Embeddings, bm25: BM25Retriever) -> Search:
    ids = [document["id"] for document in work.documents]
    texts = [document["text"] for document in work.documents]
    store = FAISS.from_embeddings(
        list(zip(texts, work.vectors.tolist(), strict=True)),
        embeddings,
        metadatas=[{"doc_id": doc_id} for doc_id in ids],
    )
    dense = store.as_retriever(search_kwargs={"k": work.settings["k"]})
    both = EnsembleRetriever(retrievers=[bm25, dense], weights=[0.5, 0.5], id_key="doc_id")
    return lambda query: [document.metadata["doc_id"] for document in both.invoke(query)]


def contenders(work: Work) -> Iterable[Contender]:
    model = HuggingFaceEmbeddings(
        model_name=work.settings["model"],
        model_kwargs={"device": "cpu"},
        encode_kwargs={"normalize_embeddings": True},
    )
    text = work.queries[0]["text"]
    assert cosine(model.embed_query(text), work.held[text]) > 0.9999, "not the same encoder"
    documents = [
        Document(page_content=document["text"], metadata={"doc_id": document["id"]})
        for document in work.documents
    ]
    default: dict[str, Callable[[str], list[str]]] = {}
    for name, options in {
        "LangChain, hybrid": default,
        "LangChain, hybrid, words": {"preprocess_func": words},
    }.items():
        bm25 = BM25Retriever.from_documents(documents, **options)
        bm25.k = work.settings["k"]
        yield Contender(name, ensemble(work, model, bm25), ensemble(work, Held(work.held), bm25))


if __name__ == "__main__":
    work = given()
    compared(work, contenders(work), PACKAGES)
