"""Where an index lives between two runs, and how it keeps up with its documents.

Each corpus has one folder.  Opening it compares the documents with what the index was built from:
nothing changed, and it is loaded; a few documents changed, and only their chunks are embedded;
the model or the chunker changed, and the reader is asked to rebuild.

What was deleted is gone: the index is written anew without it, and its encodings leave the cache.
A build that is killed goes on where it was, for finished encodings are in the cache already; a
half index is never readable, for an index is put in place by one rename.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from glob import escape
from pathlib import Path

from filelock import FileLock

from raglab.ingest.cache import cache_folder
from raglab.ingest.embed import SentenceEncoder
from raglab.ingest.index import Index, OldFormat
from raglab.ingest.manifest import Changes, fingerprint, sources
from raglab.types import Chunker, Document, RagLabError

Say = Callable[[str], None]


def open_index(
    documents: Sequence[Document],
    name: str,
    chunker: Chunker,
    embedder: SentenceEncoder,
    *,
    rebuild: bool = False,
    progress: bool = True,
    say: Say = lambda _: None,
) -> Index:
    """The index of these documents: loaded, brought up to date, or built, and saved.

    `say` hears in a sentence what was done.  Raises RagLabError where the saved index was made by
    another model or chunker, or was tampered with; `rebuild` builds it in any case.
    """
    folder = cache_folder() / "indexes" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{name}.lock")):
        # Under the lock no one else is writing: what is left here was left by a killed process.
        for rest in folder.parent.glob(f".{escape(name)}.*"):
            shutil.rmtree(rest, ignore_errors=True)
        old = _saved(folder, rebuild)
        if old and not rebuild:
            if old.manifest.fingerprint == fingerprint(documents, chunker, embedder):
                return old
            new = old.update(documents, chunker, embedder, progress=progress)
            say(str(Changes.between(old.manifest.sources, sources(documents))))
        else:
            new = Index.build(documents, chunker, embedder, progress=progress)
            say(f"built from {len(documents)} documents")
        if old:
            # Before the save: killed here, the next start finds the old index and forgets again.
            held = {chunk.indexed_text for chunk in new.chunks}
            embedder.forget([c.indexed_text for c in old.chunks if c.indexed_text not in held])
        new.save(folder)
        return Index.load(folder)


def _saved(folder: Path, rebuild: bool) -> Index | None:
    """The saved index; a rebuild does without where it cannot be read, and so does a newer raglab:
    the encodings are kept, so building again costs little."""
    if not folder.exists():
        return None
    try:
        return Index.load(folder)
    except OldFormat:
        return None
    except RagLabError:
        if not rebuild:
            raise
        return None
