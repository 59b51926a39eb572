"""The index: chunks and their vectors, built once, saved whole, refused when they do not fit.

    manifest.json       what it was built from, and a sha256 for each file beside it
    chunks.jsonl        the chunks, a line each
    vectors.npy         float32 [n, d]: a sentence vector for each chunk
    codes.npy           uint8 [T, d / 2]: the token vectors of all chunks, one after the other
    scales.npy          float16 [T]: see `compact` for both
    spans.npy           int32 [T, 2]: where each token stands in its chunk's indexed text
    offsets.npy         int64 [n + 1]: chunk i owns tokens[offsets[i] : offsets[i + 1]]

Token vectors open by memory map, so an index larger than memory still serves.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raglab.ingest.compact import Compact
from raglab.ingest.manifest import FORMAT, Manifest, listed, manifest_of, name_of, sources
from raglab.types import Chunk, Chunker, Document, Embedder, RagLabError, Vectors

ARRAYS = ("vectors", "codes", "scales", "spans", "offsets")


class OldFormat(RagLabError):
    """The index was written by another version of raglab."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A chunk and what the index keeps of it."""

    chunk: Chunk
    vector: Vectors
    tokens: Compact
    spans: NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class Index:
    chunks: tuple[Chunk, ...]
    vectors: Vectors
    tokens: Compact
    spans: NDArray[np.int32]
    offsets: NDArray[np.int64]
    manifest: Manifest
    folder: Path | None = field(default=None)

    def __repr__(self) -> str:
        # Not the folder: a trace of the same run must read the same on another machine.
        return f"Index({len(self.chunks)} chunks, {self.manifest.fingerprint[:12]})"

    @cached_property
    def rows(self) -> dict[str, int]:
        """chunk_id -> row."""
        return {chunk.chunk_id: row for row, chunk in enumerate(self.chunks)}

    def token_vectors(self, chunk_id: str) -> Vectors:
        """float32 [t, d]: a chunk's token vectors, close to length 1."""
        return self.tokens[self._of(self.rows[chunk_id])].vectors()

    def tokens_of(self, chunk_ids: Sequence[str]) -> tuple[Compact, list[int]]:
        """The token vectors of these chunks, one behind the other, and how many each has."""
        places = [self._of(self.rows[chunk_id]) for chunk_id in chunk_ids]
        pieces = [self.tokens[place] for place in places]
        return Compact.joined(pieces, self.tokens.width), [len(piece) for piece in pieces]

    def token_spans(self, chunk_id: str) -> NDArray[np.int32]:
        """int32 [t, 2]: where those tokens stand in `chunk.indexed_text`, in characters."""
        return self.spans[self._of(self.rows[chunk_id])]

    def _of(self, row: int) -> slice:
        return slice(int(self.offsets[row]), int(self.offsets[row + 1]))

    @classmethod
    def build(
        cls,
        documents: Sequence[Document],
        chunker: Chunker,
        embedder: Embedder,
        *,
        tokens: bool = True,
        progress: bool = False,
    ) -> Index:
        """Chunk and embed. Costs a pass of the encoder for each chunk that no cache knows.

        `tokens=False` leaves token vectors out: enough for dense and sparse retrieval.
        """
        nothing = cls.empty(chunker, embedder)
        return nothing.update(documents, chunker, embedder, tokens=tokens, progress=progress)

    @classmethod
    def empty(cls, chunker: Chunker, embedder: Embedder) -> Index:
        width = embedder.dimension
        return cls(
            chunks=(),
            vectors=np.zeros((0, width), np.float32),
            tokens=Compact.joined((), width),
            spans=np.zeros((0, 2), np.int32),
            offsets=np.zeros(1, np.int64),
            manifest=manifest_of({}, (), chunker, embedder),
        )

    def update(
        self,
        documents: Sequence[Document],
        chunker: Chunker,
        embedder: Embedder,
        *,
        tokens: bool = True,
        progress: bool = False,
    ) -> Index:
        """The index of `documents`, taking over from this one all that did not change.

        Only the chunks of added and changed documents are embedded.  Raises RagLabError where the
        model or the chunker is another one: then every document is affected.
        """
        self._same_make(chunker, embedder)
        hashes = sources(documents)
        kept = {
            doc_id for doc_id, found in hashes.items() if self.manifest.sources.get(doc_id) == found
        }
        rows: dict[str, list[int]] = {}
        for row, chunk in enumerate(self.chunks):
            rows.setdefault(chunk.doc_id, []).append(row)
        fresh = [
            chunk
            for document in documents
            if document.doc_id not in kept
            for chunk in chunker.chunk(document)
        ]
        texts = [chunk.indexed_text for chunk in fresh]
        encodings = embedder.encode(texts, tokens=tokens, progress=progress)
        new: dict[str, list[Entry]] = {}
        for chunk, encoding in zip(fresh, encodings, strict=True):
            compact = Compact.of(encoding.tokens)
            entry = Entry(chunk, encoding.vector, compact, encoding.spans)
            new.setdefault(chunk.doc_id, []).append(entry)
        entries: list[Entry] = []
        for document in documents:
            if document.doc_id in kept:
                entries += [self._entry(row) for row in rows.get(document.doc_id, ())]
            else:
                entries += new.get(document.doc_id, ())
        manifest = manifest_of(hashes, [entry.chunk for entry in entries], chunker, embedder)
        return self._packed(entries, manifest)

    def _same_make(self, chunker: Chunker, embedder: Embedder) -> None:
        manifest = self.manifest
        differ = []
        if manifest.model_fingerprint != embedder.fingerprint:
            differ.append(f"the model ({manifest.model}, now {name_of(embedder)})")
        if manifest.chunker != repr(chunker):
            differ.append(f"the chunker ({manifest.chunker}, now {chunker!r})")
        if differ:
            ids = list(manifest.sources)
            raise RagLabError(
                f"{' and '.join(differ)} changed since the index was built. That affects all "
                f"{len(ids)} documents: {listed(ids)}. Build it again with `raglab index --rebuild`"
            )

    def _entry(self, row: int) -> Entry:
        at = self._of(row)
        return Entry(self.chunks[row], self.vectors[row], self.tokens[at], self.spans[at])

    def _packed(self, entries: Sequence[Entry], manifest: Manifest) -> Index:
        lengths = [len(entry.tokens) for entry in entries]
        return Index(
            chunks=tuple(entry.chunk for entry in entries),
            vectors=np.stack([e.vector for e in entries]) if entries else self.vectors[:0],
            tokens=Compact.joined([entry.tokens for entry in entries], self.tokens.width),
            spans=np.concatenate([self.spans[:0], *(entry.spans for entry in entries)]),
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            manifest=manifest,
        )

    def save(self, folder: Path | str) -> Path:
        """Write all of it beside `folder`, then rename: a half index is never readable."""
        folder = Path(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            lines = (json.dumps(asdict(chunk), ensure_ascii=False) for chunk in self.chunks)
            (temporary / "chunks.jsonl").write_text(
                "".join(line + "\n" for line in lines), encoding="utf-8"
            )
            for name in ARRAYS:
                owner = self.tokens if name in ("codes", "scales") else self
                np.save(temporary / f"{name}.npy", getattr(owner, name), allow_pickle=False)
            files = {path.name: _sha256(path) for path in sorted(temporary.iterdir())}
            manifest = asdict(self.manifest) | {"files": files}
            (temporary / "manifest.json").write_text(json.dumps(manifest, indent=1), "utf-8")
            _swap(temporary, folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        return folder

    @classmethod
    def load(cls, folder: Path | str, *, expect: str | None = None) -> Index:
        """Open a saved index. Raises RagLabError where a file is missing or was changed, or where
        the index was built from something other than `expect`, a fingerprint."""
        folder = Path(folder)
        mend = "build it again with `raglab index --rebuild`"
        try:
            stored = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            written = stored.get("format")
            if written != FORMAT:
                raise OldFormat(
                    f"{folder} has format {written}, this raglab reads {FORMAT}: {mend}"
                )
            files = stored.pop("files")
            manifest = Manifest(**stored)
            if expect is not None and manifest.fingerprint != expect:
                raise RagLabError(
                    f"{folder} was built by {manifest.model} with {manifest.chunker} over "
                    f"{manifest.documents} documents, and the model, the chunker or a text has "
                    f"changed since: {mend}"
                )
            expected = {"chunks.jsonl", *(f"{name}.npy" for name in ARRAYS)}
            for name in sorted(expected | set(files)):
                if files.get(name) != _sha256(folder / name):
                    raise RagLabError(f"{folder / name} was changed after it was built: {mend}")
            arrays: dict[str, Any] = {
                name: np.load(
                    folder / f"{name}.npy",
                    mmap_mode="r" if name == "codes" else None,
                    allow_pickle=False,
                )
                for name in ARRAYS
            }
            with (folder / "chunks.jsonl").open(encoding="utf-8", newline="\n") as lines:
                rows = [json.loads(line) for line in lines]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RagLabError(f"{folder} is not a whole index ({error!r}): {mend}") from error
        chunks = tuple(Chunk(**{**row, "groups": tuple(row["groups"])}) for row in rows)
        width = arrays["vectors"].shape[1]
        tokens = Compact(arrays.pop("codes"), arrays.pop("scales"), width)
        return cls(chunks, tokens=tokens, **arrays, manifest=manifest, folder=folder)


def _swap(new: Path, folder: Path) -> None:
    """Put `new` where `folder` is; what was there goes only after the new one stands."""
    old = new.with_suffix(".old")
    if folder.exists():
        folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        if not folder.exists():
            raise
        shutil.rmtree(new)  # another process was first, and its index is as whole as this one
    shutil.rmtree(old, ignore_errors=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
