"""Documents in, an index out: read, chunked, embedded, saved whole, refused where unfit."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes import FakeEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st

from raglab.ingest.chunk import WholeDocument
from raglab.ingest.corpus import read_beir, read_folder, read_questions
from raglab.ingest.embed import SentenceEncoder
from raglab.ingest.index import Index
from raglab.ingest.manifest import fingerprint
from raglab.ingest.recursive import Recursive, sections
from raglab.lab import golden_questions, read_corpus
from raglab.sentences import sentence_spans
from raglab.types import Document, RagLabError

SPANS = FakeEmbedder().spans


# -- reading --------------------------------------------------------------------------------------


def test_front_matter_becomes_the_card(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "---\nid: refunds\ntitle: Refunds\nsource: Finance\nupdated: 2026-01-02\n"
        "groups: [hr]\nowner: Ines\n---\n\n# Refunds\n\nFive days.\n",
        encoding="utf-8",
    )
    (document,) = read_folder(tmp_path)
    assert document == Document(
        "refunds", "# Refunds\n\nFive days.", "Refunds", "Finance", "2026-01-02", ("hr",),
        {"owner": "Ines"},
    )  # fmt: skip


def test_a_file_without_front_matter_is_named_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.md").write_bytes("\ufeff# Über uns\n\nText.".encode())
    (document,) = read_folder(tmp_path)
    assert (document.doc_id, document.title) == ("sub/b", "Über uns")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.md", b"\xff\xfe\xfa", "save it as UTF-8"),
        ("a.md", b"---\nid: [\n---\n", "not YAML"),
        ("a.md", b"---\ngroups: hr\n---\n", "must be a list"),
    ],
)
def test_what_cannot_be_read_names_the_file_and_the_mend(
    tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RagLabError, match=says) as error:
        read_folder(tmp_path)
    assert name in str(error.value)


def test_two_documents_with_one_id_are_refused(tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text("---\nid: x\n---\ntext")
    with pytest.raises(RagLabError, match="two files"):
        read_folder(tmp_path)


def test_empty_and_missing_folders_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RagLabError, match="put documents there"):
        read_folder(tmp_path)
    with pytest.raises(RagLabError, match="not a folder"):
        read_folder(tmp_path / "none")
    with pytest.raises(RagLabError, match="handbook"):
        read_corpus("no-such-corpus")


def test_a_broken_question_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"query_id": "a"}\n')
    with pytest.raises(RagLabError, match=r"q\.jsonl:1 .*data/README"):
        read_questions(path)


def test_a_beir_folder(tmp_path: Path) -> None:
    rows = [{"_id": "1", "title": "T", "text": "line\u2028separator"}, {"_id": "2", "text": "B"}]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "queries.jsonl").write_text('{"_id":"q","text":"?"}\n{"_id":"r","text":"!"}\n')
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n")
    documents, queries, qrels = read_beir(tmp_path)
    assert [d.text for d in documents] == ["T line\u2028separator", "B"]
    assert [q.query_id for q in queries] == ["q"]
    assert qrels == {"q": {"1": 1}}
    with pytest.raises(RagLabError, match="query-id"):
        read_beir(tmp_path, split="dev")
    assert read_corpus(tmp_path) == documents
    (tmp_path / "corpus.jsonl").write_text('{"text": "no id"}')
    with pytest.raises(RagLabError, match=r"jsonl:1 has no _id"):
        read_corpus(tmp_path)


# -- chunking -------------------------------------------------------------------------------------


def test_sections_keep_their_path_and_skip_fenced_hashes() -> None:
    text = "# A\n\nintro\n\n## B\n```\n# no heading\n```\n# C\nend"
    assert [path for _, path in sections(text)] == ["A", "A > B", "C"]


def test_a_chunk_is_as_coarse_as_it_can_be() -> None:
    """Ten words fit: the two paragraphs of five stay whole, the third is cut by sentences."""
    text = (
        "a b c d e\n\nf g h i j\n\n" + "One two three four five six. Seven eight nine ten eleven."
    )
    chunks = Recursive(SPANS, size=10, overlap=0).chunk(Document("d", text))
    assert [c.text for c in chunks] == [
        "a b c d e\n\nf g h i j",
        "One two three four five six.",
        "Seven eight nine ten eleven.",
    ]


def test_neighbours_overlap_by_whole_pieces() -> None:
    text = "One a. Two b. Three c. Four d."
    chunks = Recursive(SPANS, size=4, overlap=2).chunk(Document("d", text))
    assert [c.text for c in chunks] == ["One a. Two b.", "Two b. Three c.", "Three c. Four d."]


@given(
    st.text(st.sampled_from("ab é.?!\n#`|-界\t"), max_size=400),
    st.integers(1, 12),
    st.integers(0, 5),
)
@settings(deadline=None, max_examples=200)
def test_nothing_is_lost_and_sizes_hold(text: str, size: int, overlap: int) -> None:
    document = Document("d", text)
    chunker = Recursive(SPANS, size=size, overlap=min(overlap, size - 1))
    chunks = chunker.chunk(document)
    covered: set[int] = set()
    for chunk in chunks:
        assert text[chunk.start : chunk.end] == chunk.text
        assert len(SPANS(chunk.text)) <= size
        covered.update(range(chunk.start, chunk.end))
    lost = [i for i, letter in enumerate(text) if not letter.isspace() and i not in covered]
    assert not lost
    assert len({chunk.chunk_id for chunk in chunks}) == len(chunks)
    assert chunks == chunker.chunk(document)


def test_every_chunk_of_the_handbook_fits_the_encoder(lab, index) -> None:  # type: ignore[no-untyped-def]
    documents = {document.doc_id: document for document in read_corpus("handbook")}
    count = lab.retrievers["dense"].embedder.count
    for chunk in index.chunks:
        assert documents[chunk.doc_id].text[chunk.start : chunk.end] == chunk.text
        assert 0 < count(chunk.text) <= 200
    assert index.manifest.truncated == 0


def test_no_golden_quote_is_severed_by_the_default_chunker(index) -> None:  # type: ignore[no-untyped-def]
    for question in golden_questions("handbook"):
        for evidence in question.evidence:
            assert any(
                evidence.quote in c.text for c in index.chunks if c.doc_id == evidence.doc_id
            ), question.query_id


def test_a_word_without_end_is_cut_between_pieces(encoder: SentenceEncoder) -> None:
    chunks = Recursive(encoder.spans, size=50, overlap=0).chunk(Document("d", "x" * 2000))
    assert "".join(c.text for c in chunks) == "x" * 2000
    assert all(len(encoder.spans(c.text)) <= 60 for c in chunks)


def test_a_word_without_end_counts_for_what_a_model_would_read(encoder: SentenceEncoder) -> None:
    """To the encoder it is one unknown piece; a budget must not be passed by it."""
    assert len(encoder.spans("x" * 800)) == 1
    assert encoder.count("x" * 800) == 800 // 8
    assert encoder.count("how long do refunds take") == len(
        encoder.spans("how long do refunds take")
    )


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(RagLabError, match="overlap smaller"):
        Recursive(SPANS, size=10, overlap=10)


def test_sentences_end_where_they_should() -> None:
    text = "# Head\nDr. No came. He left, e.g. by 5.7% (fast).\n| a | b |\n| c | d |\n\nEnd"
    assert [text[a:b] for a, b in sentence_spans(text)] == [
        "# Head", "Dr. No came.", "He left, e.g. by 5.7% (fast).", "| a | b |", "| c | d |", "End",
    ]  # fmt: skip


# -- embedding ------------------------------------------------------------------------------------


def test_the_mean_of_the_token_vectors_is_the_sentence_vector(encoder: SentenceEncoder) -> None:
    """Mean pooling, redone by hand from the network's own output."""
    text = "RRF adds reciprocal ranks."
    (row,) = encoder._network.encode([text], output_value=None)
    tokens = row["token_embeddings"].numpy()
    mean = tokens[: int(row["attention_mask"].sum())].mean(axis=0)
    expected = mean / np.linalg.norm(mean)
    assert np.allclose(encoder.embed([text])[0], expected, atol=1e-5)


def test_token_vectors_stand_where_their_words_do(encoder: SentenceEncoder) -> None:
    text = "Mind ERR_2043, über alles"
    (encoding,) = encoder.encode([text])
    words = [text[a:b] for a, b in encoding.spans.tolist()]
    assert words[:3] == ["Mind", "ER", "R"]
    assert "über" in words
    assert encoding.tokens.shape == (len(words), 384)
    assert np.allclose(np.linalg.norm(encoding.tokens.astype(np.float32), axis=1), 1, atol=1e-3)


def test_past_its_limit_the_encoder_is_blind(encoder: SentenceEncoder) -> None:
    start = "word " * encoder.limit
    one, other = encoder.embed([start + "refund", start + "kitten"])
    assert np.allclose(one, other, atol=1e-6)
    assert encoder.count(start + "refund") > encoder.limit


def test_a_text_is_embedded_once(tmp_path: Path) -> None:
    first = SentenceEncoder(cache=tmp_path / "c.sqlite3")
    vectors = first.embed(["one", "two", "one"])
    assert first.embedded == 2
    second = SentenceEncoder(cache=tmp_path / "c.sqlite3")
    assert np.array_equal(second.embed(["two", "one"]), vectors[[1, 0]])
    assert second.embedded == 0


def test_a_damaged_cache_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite3"
    path.write_bytes(b"this is no database" * 100)
    with pytest.warns(UserWarning, match="damaged"):
        assert SentenceEncoder(cache=path).embed(["one"]).shape == (1, 384)
    assert (tmp_path / "c.damaged").exists()


def test_a_model_that_is_not_there_names_the_bundled_one() -> None:
    with pytest.raises(RagLabError, match="all-MiniLM-L6-v2"):
        SentenceEncoder("no/such-model").embed(["x"])


# -- the index ------------------------------------------------------------------------------------

DOCUMENTS = (Document("a", "Refunds take five days."), Document("b", "Errors have codes."))


def build(tmp_path: Path) -> tuple[Path, str]:
    embedder = FakeEmbedder()
    index = Index.build(DOCUMENTS, WholeDocument(), embedder)
    return index.save(tmp_path / "index"), fingerprint(DOCUMENTS, WholeDocument(), embedder)


def test_an_index_loads_as_it_was_saved(tmp_path: Path) -> None:
    folder, wanted = build(tmp_path)
    index = Index.load(folder, expect=wanted)
    fresh = Index.build(DOCUMENTS, WholeDocument(), FakeEmbedder())
    assert index.chunks == fresh.chunks
    assert index.manifest == fresh.manifest
    for name in ("vectors", "spans", "offsets"):
        assert np.array_equal(getattr(index, name), getattr(fresh, name))
    assert np.array_equal(index.tokens.codes, fresh.tokens.codes)
    assert np.array_equal(index.tokens.scales, fresh.tokens.scales)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize(
    "name", ["chunks.jsonl", "vectors.npy", "codes.npy", "scales.npy", "spans.npy", "offsets.npy"]
)
def test_a_changed_file_is_refused(tmp_path: Path, name: str) -> None:
    folder, _ = build(tmp_path)
    content = bytearray((folder / name).read_bytes())
    content[-2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(RagLabError, match=r"changed after it was built.*--rebuild"):
        Index.load(folder)
    (folder / name).unlink()
    with pytest.raises(RagLabError, match="not a whole index"):
        Index.load(folder)


def test_an_index_of_other_texts_or_chunks_is_refused(tmp_path: Path) -> None:
    folder, _ = build(tmp_path)
    changed = (DOCUMENTS[0], replace(DOCUMENTS[1], text="Errors have no codes."))
    for documents, chunker in ((changed, WholeDocument()), (DOCUMENTS, Recursive(SPANS))):
        with pytest.raises(RagLabError, match="has changed since"):
            Index.load(folder, expect=fingerprint(documents, chunker, FakeEmbedder()))


def test_a_manifest_from_elsewhere_is_refused(tmp_path: Path) -> None:
    folder, _ = build(tmp_path)
    (folder / "manifest.json").write_text("[]")
    with pytest.raises(RagLabError, match="not a whole index"):
        Index.load(folder)


def test_a_failed_save_leaves_the_old_index(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    folder, wanted = build(tmp_path)

    def full_disk(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(np, "save", full_disk)
    with pytest.raises(OSError, match="no space"):
        Index.build(DOCUMENTS[:1], WholeDocument(), FakeEmbedder()).save(folder)
    monkeypatch.undo()
    assert len(Index.load(folder, expect=wanted).chunks) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_importing_raglab_is_light() -> None:
    """Asked of a fresh interpreter: neither torch nor faiss nor a widget comes along."""
    code = (
        "import sys, raglab, raglab.lab, raglab.views; "
        "print([m for m in ('torch', 'faiss', 'anthropic', 'sentence_transformers') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
