"""What an index was built from, and what has changed since.

A document's hash covers its text and its card.  The fingerprint covers those hashes, the model and
the chunker: equal fingerprints mean equal indexes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from raglab.types import Chunk, Chunker, Document, Embedder

FORMAT = 3


@dataclass(frozen=True)
class Manifest:
    """What an index was built from. `fingerprint` changes when any of it does."""

    fingerprint: str
    model: str
    model_fingerprint: str
    chunker: str
    sources: Mapping[str, str]  # doc_id -> sha256 of its text and card
    chunks: int
    truncated: int  # chunks that hold more word pieces than the encoder reads
    limit: int  # word pieces that the encoder reads
    format: int = FORMAT

    @property
    def documents(self) -> int:
        return len(self.sources)


@dataclass(frozen=True, slots=True)
class Changes:
    """Which documents an index lacks, holds in an older form, or should no longer hold."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    @classmethod
    def between(cls, old: Mapping[str, str], new: Mapping[str, str]) -> Changes:
        """
        >>> Changes.between({"a": "1", "b": "1"}, {"b": "2", "c": "1"})
        Changes(added=('c',), changed=('b',), removed=('a',))
        """
        return cls(
            added=tuple(doc_id for doc_id in new if doc_id not in old),
            changed=tuple(doc_id for doc_id in new if old.get(doc_id, new[doc_id]) != new[doc_id]),
            removed=tuple(doc_id for doc_id in old if doc_id not in new),
        )

    def __str__(self) -> str:
        named = {"added": self.added, "changed": self.changed, "removed": self.removed}
        said = [f"{len(ids)} {what}: {listed(ids)}" for what, ids in named.items() if ids]
        return "; ".join(said) or "nothing changed"


def listed(ids: Sequence[str], most: int = 5) -> str:
    """The first few, and how many more.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    shown = ", ".join(ids[:most])
    return shown if len(ids) <= most else f"{shown} and {len(ids) - most} more"


def sources(documents: Sequence[Document]) -> dict[str, str]:
    """doc_id -> sha256 over the document's text and card."""

    def digest(document: Document) -> str:
        entry = json.dumps(asdict(document), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(entry.encode("utf-8", "surrogatepass")).hexdigest()

    return {document.doc_id: digest(document) for document in documents}


def fingerprint(documents: Sequence[Document], chunker: Chunker, embedder: Embedder) -> str:
    """sha256 over the model, the chunker's settings and every document's text and card."""
    return _fingerprint(sources(documents), chunker, embedder)


def _fingerprint(hashes: Mapping[str, str], chunker: Chunker, embedder: Embedder) -> str:
    parts = [str(FORMAT), embedder.fingerprint, repr(chunker), *hashes, *hashes.values()]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def manifest_of(
    hashes: Mapping[str, str], chunks: Sequence[Chunk], chunker: Chunker, embedder: Embedder
) -> Manifest:
    return Manifest(
        fingerprint=_fingerprint(hashes, chunker, embedder),
        model=name_of(embedder),
        model_fingerprint=embedder.fingerprint,
        chunker=repr(chunker),
        sources=dict(hashes),
        chunks=len(chunks),
        truncated=sum(embedder.count(chunk.indexed_text) > embedder.limit for chunk in chunks),
        limit=embedder.limit,
    )


def name_of(embedder: Embedder) -> str:
    return str(getattr(embedder, "model", type(embedder).__name__))
