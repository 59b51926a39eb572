"""The index: chunks and their vectors, built once, saved whole, refused when they do not fit.

    manifest.json       what it was built from, and a sha256 for each file beside it
    chunks.jsonl        the chunks, a line each
    vectors.npy         float32 [n, d]: a sentence vector for each chunk
    tokens.npy          float16 [T, d]: the token vectors of all chunks, one after the other
    spans.npy           int32 [T, 2]: where each token stands in its chunk's indexed text
    offsets.npy         int64 [n + 1]: chunk i owns tokens[offsets[i] : offsets[i + 1]]

Token vectors are kept as float16: half of float32's bytes; what that costs is printed by
`make bench`.  They open by memory map, so an index larger than memory still serves.
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

from raglab.types import Chunk, Chunker, Document, Embedder, RagLabError, Vectors

FORMAT = 1
ARRAYS = ("vectors", "tokens", "spans", "offsets")


@dataclass(frozen=True)
class Manifest:
    """What an index was built from. `fingerprint` changes when any of it does."""

    fingerprint: str
    model: str
    model_fingerprint: str
    chunker: str
    documents: int
    chunks: int
    truncated: int  # chunks that hold more word pieces than the encoder reads
    limit: int  # word pieces that the encoder reads
    format: int = FORMAT


def fingerprint(documents: Sequence[Document], chunker: Chunker, embedder: Embedder) -> str:
    """sha256 over the model, the chunker's settings and every document's text and card."""
    digest = hashlib.sha256(f"{FORMAT}\0{embedder.fingerprint}\0{chunker!r}".encode())
    for document in documents:
        entry = json.dumps(asdict(document), sort_keys=True, ensure_ascii=False)
        digest.update(hashlib.sha256(entry.encode("utf-8", "surrogatepass")).digest())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False, repr=False)
class Index:
    chunks: tuple[Chunk, ...]
    vectors: Vectors
    tokens: NDArray[np.float16]
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
        """float32 [t, d]: a chunk's token vectors."""
        row = self.rows[chunk_id]
        return self.tokens[self.offsets[row] : self.offsets[row + 1]].astype(np.float32)

    def token_spans(self, chunk_id: str) -> NDArray[np.int32]:
        """int32 [t, 2]: where those tokens stand in `chunk.indexed_text`, in characters."""
        row = self.rows[chunk_id]
        return self.spans[self.offsets[row] : self.offsets[row + 1]]

    @classmethod
    def build(
        cls,
        documents: Sequence[Document],
        chunker: Chunker,
        embedder: Embedder,
        *,
        progress: bool = False,
    ) -> Index:
        """Chunk and embed. Costs a pass of the encoder for each chunk that no cache knows."""
        chunks = tuple(chunk for document in documents for chunk in chunker.chunk(document))
        texts = [chunk.indexed_text for chunk in chunks]
        encodings = embedder.encode(texts, progress=progress)
        width = embedder.dimension
        lengths = [len(encoding.tokens) for encoding in encodings]
        empty_tokens, empty_spans = np.zeros((0, width), np.float16), np.zeros((0, 2), np.int32)
        return cls(
            chunks=chunks,
            vectors=np.stack([e.vector for e in encodings])
            if encodings
            else np.zeros((0, width), np.float32),
            tokens=np.concatenate([empty_tokens, *(e.tokens for e in encodings)]),
            spans=np.concatenate([empty_spans, *(e.spans for e in encodings)]),
            offsets=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
            manifest=Manifest(
                fingerprint=fingerprint(documents, chunker, embedder),
                model=getattr(embedder, "model", type(embedder).__name__),
                model_fingerprint=embedder.fingerprint,
                chunker=repr(chunker),
                documents=len(documents),
                chunks=len(chunks),
                truncated=sum(embedder.count(text) > embedder.limit for text in texts),
                limit=embedder.limit,
            ),
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
                np.save(temporary / f"{name}.npy", getattr(self, name), allow_pickle=False)
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
            files = stored.pop("files")
            manifest = Manifest(**stored)
            if manifest.format != FORMAT:
                raise RagLabError(
                    f"{folder} has format {manifest.format}, this raglab reads {FORMAT}: {mend}"
                )
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
                    mmap_mode="r" if name == "tokens" else None,
                    allow_pickle=False,
                )
                for name in ARRAYS
            }
            with (folder / "chunks.jsonl").open(encoding="utf-8", newline="\n") as lines:
                rows = [json.loads(line) for line in lines]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RagLabError(f"{folder} is not a whole index ({error!r}): {mend}") from error
        chunks = tuple(Chunk(**{**row, "groups": tuple(row["groups"])}) for row in rows)
        return cls(chunks, **arrays, manifest=manifest, folder=folder)


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
