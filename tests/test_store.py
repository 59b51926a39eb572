"""An index keeps up with its documents, and survives a process that does not."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes import FakeEmbedder

from raglab.ingest.chunk import FixedSize, WholeDocument
from raglab.ingest.embed import SentenceEncoder
from raglab.ingest.index import Index
from raglab.ingest.recursive import Recursive
from raglab.ingest.store import open_index
from raglab.retrieve.sparse import BM25
from raglab.retrieve.tokens import Tokenizer
from raglab.types import Document, RagLabError

DOCUMENTS = tuple(
    Document(f"d{number}", f"Document {number}. It holds fact {number} alone.")
    for number in range(6)
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGLAB_CACHE", str(tmp_path))
    return tmp_path


def encoder(place: Path) -> SentenceEncoder:
    return SentenceEncoder(cache=place / "encodings.sqlite3")


def assert_same(one: Index, other: Index) -> None:
    assert one.manifest == other.manifest
    assert one.chunks == other.chunks
    for name in ("vectors", "spans", "offsets"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for name in ("codes", "scales"):
        assert np.array_equal(getattr(one.tokens, name), getattr(other.tokens, name)), name


EDITS = {
    "added": (*DOCUMENTS, Document("new", "A new one. With two sentences.")),
    "changed": (DOCUMENTS[0], replace(DOCUMENTS[1], text="Other words."), *DOCUMENTS[2:]),
    "removed": DOCUMENTS[1:],
    "emptied": (replace(DOCUMENTS[0], text=""), *DOCUMENTS[1:]),
    "reordered": DOCUMENTS[::-1],
    "a card": (replace(DOCUMENTS[0], groups=("hr",)), *DOCUMENTS[1:]),
    "all at once": (Document("new", "New."), replace(DOCUMENTS[4], text="Changed."), DOCUMENTS[2]),
    "nothing left": (),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_update_equals_a_build(edit: str) -> None:
    """Whatever changed, the index is the one that a full build would have made."""
    embedder = FakeEmbedder()
    chunker = Recursive(embedder.spans, size=5, overlap=0)
    old = Index.build(DOCUMENTS, chunker, embedder)
    fresh = Index.build(EDITS[edit], chunker, FakeEmbedder())
    assert_same(old.update(EDITS[edit], chunker, embedder), fresh)


@pytest.mark.parametrize(
    ("edit", "embedded"),
    [("added", 2), ("changed", 1), ("removed", 0), ("reordered", 0), ("all at once", 2)],
)
def test_only_what_changed_is_embedded(edit: str, embedded: int) -> None:
    embedder = FakeEmbedder()
    chunker = Recursive(embedder.spans, size=5, overlap=0)
    old = Index.build(DOCUMENTS, chunker, embedder)
    embedder.embedded = 0
    old.update(EDITS[edit], chunker, embedder)
    assert embedder.embedded == embedded


def test_a_second_start_embeds_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    first, second, third = (encoder(tmp_path) for _ in range(3))
    for one in (first, second):
        open_index(DOCUMENTS, "x", WholeDocument(), one, progress=False, say=said.append)
    assert (first.embedded, second.embedded) == (6, 0)
    changed = (*EDITS["changed"], Document("new", "New."))
    open_index(changed, "x", WholeDocument(), third, progress=False, say=said.append)
    assert third.embedded == 2
    assert said == ["built from 6 documents", "1 added: new; 1 changed: d1"]


@pytest.mark.parametrize("rebuild", [False, True])
def test_what_is_deleted_is_gone_from_every_store(tmp_path: Path, rebuild: bool) -> None:
    secret = Document("secret", "The launch code is marzipan.")
    one = encoder(tmp_path)
    open_index((*DOCUMENTS, secret), "x", WholeDocument(), one, progress=False)
    (encoding,) = one.encode([secret.text])
    needles = (b"marzipan", one.key(secret.text).encode(), encoding.vector.tobytes()[:64])

    def kept(needle: bytes) -> list[str]:
        files = (path for path in tmp_path.rglob("*") if path.is_file())
        return [path.name for path in files if needle in path.read_bytes()]

    assert all(kept(needle) for needle in needles)
    index = open_index(
        DOCUMENTS, "x", WholeDocument(), encoder(tmp_path), rebuild=rebuild, progress=False
    )
    assert [kept(needle) for needle in needles] == [[], [], []]
    assert "secret#0" not in index.rows
    assert encoder(tmp_path).encode([DOCUMENTS[0].text])  # the others are still there
    with sqlite3.connect(tmp_path / "encodings.sqlite3") as database:
        assert database.execute("SELECT count(*) FROM encodings").fetchone() == (6,)


def test_a_rebuild_does_without_a_damaged_index(tmp_path: Path) -> None:
    open_index(DOCUMENTS, "x", WholeDocument(), encoder(tmp_path), progress=False)
    (tmp_path / "indexes" / "x" / "chunks.jsonl").write_text("changed")
    with pytest.raises(RagLabError, match="--rebuild"):
        open_index(DOCUMENTS, "x", WholeDocument(), encoder(tmp_path), progress=False)
    again = open_index(
        DOCUMENTS, "x", WholeDocument(), encoder(tmp_path), rebuild=True, progress=False
    )
    assert len(again.chunks) == 6


def test_another_chunker_asks_for_a_rebuild_and_names_the_documents(tmp_path: Path) -> None:
    one = encoder(tmp_path)
    open_index(DOCUMENTS, "x", WholeDocument(), one, progress=False)
    other = FixedSize(one.spans, size=5)
    with pytest.raises(RagLabError, match=r"chunker .*all 6 documents: d0, d1.*--rebuild"):
        open_index(DOCUMENTS, "x", other, one, progress=False)
    rebuilt = open_index(DOCUMENTS, "x", other, one, rebuild=True, progress=False)
    assert len(rebuilt.chunks) > 6


def test_another_model_asks_for_a_rebuild(tmp_path: Path) -> None:
    open_index(DOCUMENTS, "x", WholeDocument(), encoder(tmp_path), progress=False)
    prompted = SentenceEncoder(query_prompt="query: ", cache=tmp_path / "encodings.sqlite3")
    with pytest.raises(RagLabError, match=r"the model .*changed since the index was built"):
        open_index(DOCUMENTS, "x", WholeDocument(), prompted, progress=False)


BUILD = """
import sys
from raglab.ingest import embed
from raglab.ingest.chunk import WholeDocument
from raglab.ingest.store import open_index
from raglab.types import Document
embed.SAVE_EVERY = 4
encoder = embed.SentenceEncoder(cache=__import__("pathlib").Path(sys.argv[1]) / "encodings.sqlite3")
documents = [Document(f"d{i}", f"fact {i} " * 120) for i in range(60)]
open_index(documents, "x", WholeDocument(), encoder, progress=False)
print(encoder.embedded)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_killed_build_resumes_and_leaves_no_half_index(tmp_path: Path) -> None:
    def rows() -> int:
        try:
            with sqlite3.connect(f"file:{tmp_path}/encodings.sqlite3?mode=ro", uri=True) as found:
                return int(found.execute("SELECT count(*) FROM encodings").fetchone()[0])
        except sqlite3.OperationalError:
            return 0

    command = [sys.executable, "-c", BUILD, str(tmp_path)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(command, env=environment)
    deadline = time.monotonic() + 120
    while rows() < 8 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = rows()
    assert 8 <= done < 60
    assert not (tmp_path / "indexes" / "x").exists()
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert int(again.stdout) == 60 - done
    assert len(Index.load(tmp_path / "indexes" / "x").chunks) == 60


def test_what_a_killed_save_left_is_swept_up(tmp_path: Path) -> None:
    rest = tmp_path / "indexes" / ".x.abc"
    rest.mkdir(parents=True)
    (rest / "chunks.jsonl").write_text("half")
    open_index(DOCUMENTS, "x", WholeDocument(), encoder(tmp_path), progress=False)
    assert not rest.exists()


def test_an_index_of_an_older_raglab_is_built_again(own_cache: Path) -> None:
    """Its encodings are kept, so nothing is embedded."""
    model, chunker = encoder(own_cache), WholeDocument()
    built = open_index(DOCUMENTS, "d", chunker, model, progress=False)
    manifest = own_cache / "indexes" / "d" / "manifest.json"
    manifest.write_text('{"format": 1, "model": "with other fields"}')
    embedded, said = model.embedded, []
    again = open_index(DOCUMENTS, "d", chunker, model, progress=False, say=said.append)
    assert_same(again, built)
    assert model.embedded == embedded
    assert said == ["built from 6 documents"]


def test_words_are_kept_beside_the_index_and_made_again_where_they_are_not_whole(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = open_index(DOCUMENTS, "d", WholeDocument(), encoder(own_cache), progress=False)
    fresh = BM25(index.chunks).inverted
    assert BM25.of(index).search("fact", 3)[0].tolist() == [0, 1, 2]
    (kept,) = (own_cache / "indexes" / "d").glob("words-*.npz")

    def same(bm25: BM25) -> bool:
        found = bm25.inverted
        pairs = (
            (found.words, fresh.words),
            (found.ends, fresh.ends),
            (found.lengths, fresh.lengths),
        )
        return all(np.array_equal(*pair) for pair in pairs) and found.vocabulary == fresh.vocabulary

    for content in (kept.read_bytes(), kept.read_bytes()[:40], b"", b"PK\x03\x04 no zip"):
        kept.write_bytes(content)
        assert same(BM25.of(index))
    # What is whole is read: no text is cut into words again.
    monkeypatch.setattr(Tokenizer, "terms", None)
    assert same(BM25.of(index))


def test_words_of_deleted_documents_go_with_the_index(own_cache: Path) -> None:
    model, chunker = encoder(own_cache), WholeDocument()
    secret = Document("secret", "The word is xyzzyword.")
    index = open_index((*DOCUMENTS, secret), "d", chunker, model, progress=False)
    assert len(BM25.of(index).search("xyzzyword", 3)[0]) == 1
    index = open_index(DOCUMENTS, "d", chunker, model, progress=False)
    assert len(BM25.of(index).search("xyzzyword", 3)[0]) == 0
    kept = b"".join(path.read_bytes() for path in index.folder.iterdir())  # type: ignore[union-attr]
    assert b"xyzzyword" not in kept
