"""Dense retrieval, its filters, and what approximate indexes give up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import permutations
from typing import ClassVar

import numpy as np
import pytest
from fakes import FakeEmbedder, chunk, ids
from hypothesis import given, settings
from hypothesis import strategies as st

from raglab.ingest.chunk import WholeDocument
from raglab.ingest.embed import unit
from raglab.ingest.index import Index
from raglab.retrieve.approximate import Approximate, Trial, exponent, perturbed
from raglab.retrieve.dense import Dense, FaissFlat
from raglab.retrieve.filters import Every, Where, every
from raglab.retrieve.ranking import mask
from raglab.retrieve.sparse import BM25
from raglab.retrieve.structures import Plan
from raglab.types import Chunk, Document, Query, RagLabError, Readable, Retriever
from raglab.views.denseview import Projection, effort_panel, growth_panel, map_panel
from raglab.views.panel import Panel

EMBEDDER = FakeEmbedder()
WORDS = st.sampled_from(["refund", "policy", "error", "limit", "user", "cut", "late", "ERR_2043"])
ASKED = st.lists(WORDS, max_size=4).map(" ".join)
DOCUMENTS = st.builds(
    Document,
    doc_id=st.just(""),
    text=st.lists(WORDS, min_size=1, max_size=6).map(" ".join),
    source=st.sampled_from(["Docs / API", "Docs / Guide", "Mail"]),
    updated=st.sampled_from(["2025-12-31", "2026-03-01", ""]),
    groups=st.sampled_from([(), ("hr",), ("hr", "finance")]),
)
CORPORA = st.lists(DOCUMENTS, min_size=1, max_size=9).map(
    lambda documents: [replace(d, doc_id=f"d{row}") for row, d in enumerate(documents)]
)
FILTERS = st.builds(
    every,
    st.sampled_from([None, Readable(), Readable(("hr",))]),
    st.builds(
        Where,
        sources=st.sampled_from([(), ("Docs*",), ("Mail", "*API")]),
        since=st.sampled_from(["", "2026-01-01"]),
    ),
)
EXACT: dict[str, Callable[[Index], Retriever]] = {
    "dense": lambda index: Dense(index, EMBEDDER),
    "faiss": lambda index: FaissFlat(index, EMBEDDER),
    "BM25": lambda index: BM25(index.chunks),
}


def built(documents: list[Document]) -> Index:
    return Index.build(documents, WholeDocument(), EMBEDDER)


def texts(*written: str) -> Index:
    return built([Document(f"d{row}", text) for row, text in enumerate(written)])


# -- exact search ---------------------------------------------------------------------------------


def test_dense_is_the_dot_product() -> None:
    index = texts("refund policy", "error list")
    hits = Dense(index, EMBEDDER).retrieve(Query("q", "refund"), 2)
    expected = index.vectors @ EMBEDDER.encode_query("refund").vector
    assert {hit.chunk.doc_id: hit.score for hit in hits} == pytest.approx(
        {"d0": float(expected[0]), "d1": float(expected[1])}, abs=1e-6
    )


@given(CORPORA, st.lists(ASKED, min_size=1, max_size=5), FILTERS, st.integers(1, 10))
@settings(deadline=None, max_examples=40)
def test_alone_in_a_batch_or_through_faiss_a_ranking_is_the_same(
    documents: list[Document], asked: list[str], allowed: Where, k: int
) -> None:
    index = built(documents)
    queries = [Query("q", text) for text in asked]
    dense = Dense(index, EMBEDDER)
    alone = tuple(dense.retrieve(query, k, allowed) for query in queries)
    assert dense.retrieve_many(queries, k, allowed) == alone
    assert FaissFlat(index, EMBEDDER).retrieve_many(queries, k, allowed) == alone


def test_the_same_on_the_handbook(lab, index) -> None:  # type: ignore[no-untyped-def]
    embedder = lab.retrievers["dense"].embedder
    queries = [Query("q", text) for text in ("refund", "What is ERR_2043?", "get_user_by_id")]
    alone = tuple(Dense(index, embedder).retrieve(query, 50) for query in queries)
    assert Dense(index, embedder).retrieve_many(queries, 50) == alone
    assert FaissFlat(index, embedder).retrieve_many(queries, 50) == alone


@given(CORPORA, ASKED, st.randoms(use_true_random=False), st.integers(1, 10))
@settings(deadline=None, max_examples=40)
def test_the_order_of_the_corpus_does_not_matter(documents, asked, random, k) -> None:  # type: ignore[no-untyped-def]
    shuffled = random.sample(documents, len(documents))
    for make in EXACT.values():
        first, second = (make(built(order)) for order in (documents, shuffled))
        assert first.retrieve(Query("q", asked), k) == second.retrieve(Query("q", asked), k)


# -- filters --------------------------------------------------------------------------------------


@given(CORPORA, ASKED, FILTERS, st.integers(1, 10))
@settings(deadline=None, max_examples=60)
def test_a_filter_before_the_search_equals_one_after_a_search_of_all(
    documents: list[Document], asked: str, allowed: Where, k: int
) -> None:
    index = built(documents)
    for make in EXACT.values():
        everything = make(index).retrieve(Query("q", asked), len(documents))
        kept = [hit.chunk for hit in everything if allowed(hit.chunk)]
        filtered = make(index).retrieve(Query("q", asked), k, allowed)
        assert [hit.chunk for hit in filtered] == kept[:k]


SHELF = (
    chunk("api", source="Docs / API", updated="2026-03-01"),
    chunk("guide", source="Docs / Guide", updated="2025-12-31T09:00"),
    chunk("mail", source="Mail", groups=("hr",)),
    chunk("odd", source="Mail", updated="spring 2026"),
)


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (Where(), "api guide mail odd"),
        (Where(groups=()), "api guide odd"),
        (Where(groups=("hr",)), "api guide mail odd"),
        (Where(sources=("Docs*",)), "api guide"),
        (Where(sources=("*API", "Mail")), "api mail odd"),
        (Where(sources=("docs*",)), ""),
        (Where(since="2026-03-01"), "api"),
        (Where(until="2026-02-28"), "guide"),
        (Where(since="2025-12-31", until="2026-03-01"), "api guide"),
        (Every((Readable(), Where(sources=("Mail",)))), "odd"),
        (Every((Readable(("hr",)), Where(sources=("Mail",)))), "mail odd"),
    ],
)
def test_what_a_filter_lets_through(allowed: Where, expected: str) -> None:
    assert [c.chunk_id for c in SHELF if allowed(c)] == expected.split()


def test_filters_are_values() -> None:
    assert hash(Where(since="2026-03-01")) == hash(Where(since="2026-03-01"))
    assert every(Readable(), None, Where()) == Every((Readable(), Where()))
    assert every() is None


@pytest.mark.parametrize(
    ("wrong", "mend"),
    [
        ({"since": "March"}, "as 2026-03-01"),
        ({"until": "2026-3-1"}, "as 2026-03-01"),
        ({"since": "2026-W10-1"}, "as 2026-03-01"),
        ({"since": "2026-02-01", "until": "2026-01-01"}, "swap"),
        ({"sources": "Docs*"}, "give a tuple"),
        ({"groups": "hr"}, "give a tuple"),
    ],
)
def test_a_wrong_filter_says_how_to_write_it(wrong: dict[str, str], mend: str) -> None:
    with pytest.raises(RagLabError, match=mend):
        Where(**wrong)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Counting:
    """A filter that lets nothing through, and counts how often it was asked."""

    name: str
    asked: ClassVar[list[str]] = []

    def __call__(self, seen: Chunk) -> bool:
        self.asked.append(seen.chunk_id)
        return False


def test_a_filter_that_is_a_value_is_asked_once() -> None:
    Counting.asked.clear()
    for _ in range(3):
        assert not mask(SHELF, Counting("one")).any()
    assert len(Counting.asked) == len(SHELF)
    mask(SHELF, Counting("two"))
    mask((*SHELF,), Counting("one"))  # an equal tuple, and still another one
    assert len(Counting.asked) == 3 * len(SHELF)


def test_a_filter_that_may_change_is_asked_every_time() -> None:
    seen = {"api"}
    assert mask(SHELF, lambda c: c.chunk_id in seen).sum() == 1
    readable, growing = Where(sources=["Mail"]), ["api"]  # type: ignore[arg-type]
    assert mask(SHELF, readable).sum() == 2
    readable.sources.append("Docs*")  # type: ignore[attr-defined]
    assert mask(SHELF, readable).sum() == 4

    def named(c: Chunk) -> bool:
        return c.chunk_id in growing

    assert mask(SHELF, named).sum() == 1
    growing.append("mail")
    assert mask(SHELF, named).sum() == 2


def test_a_kept_mask_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        mask(SHELF, Readable())[0] = False


# -- structures -----------------------------------------------------------------------------------

RANDOM = np.random.default_rng(0)
VECTORS = unit(RANDOM.normal(size=(600, 32)))
ASKING = unit(RANDOM.normal(size=(20, 32)))
BEST = np.argsort(-(ASKING @ VECTORS.T), axis=1)[:, :10]
ALL = len(VECTORS)
SMALL = {"hnsw": {"m": 8}, "ivf-pq": {"pieces": 8, "bits": 4}}
FULL = {  # as much effort as there is
    "flat": Plan("flat"),
    "hnsw": Plan("hnsw", ef_search=ALL),
    "ivf": Plan("ivf", nlist=24, nprobe=24),
    "ivf-pq": Plan("ivf-pq", nlist=24, nprobe=24, pieces=8, bits=4, rescored=ALL),
    "sq8": Plan("sq8", rescored=50),
    "bits": Plan("bits", rescored=ALL),
    "cut": Plan("flat", dimensions=8, rescored=ALL),
}


@pytest.mark.parametrize("name", FULL)
def test_with_all_effort_nothing_is_missed(name: str) -> None:
    scores, rows = FULL[name].build(VECTORS).search(ASKING, 10)
    assert rows[:, :10].tolist() == BEST.tolist()
    expected = np.take_along_axis(ASKING @ VECTORS.T, BEST, axis=1)
    assert np.allclose(scores[:, :10], expected, atol=2e-6)


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf", "ivf-pq", "sq8", "bits"])
def test_equal_vectors_give_equal_structures(kind: str) -> None:
    import faiss

    write = faiss.serialize_index_binary if kind == "bits" else faiss.serialize_index
    plan = Plan(kind, **SMALL.get(kind, {}))
    first, second = (write(plan.build(VECTORS).structure) for _ in range(2))
    assert np.array_equal(first, second)


def test_bits_by_hand() -> None:
    """Signs + + - + + + + + against - + - + + + + + : seven of eight agree."""
    ours = np.array([[1, 1, -1, 1, 1, 1, 1, 1]], np.float32)
    theirs = np.array([[-1, 1, -1, 1, 1, 1, 1, 1], [-1, -1, 1, -1, -1, -1, -1, -1]], np.float32)
    scores, rows = Plan("bits").build(unit(theirs)).search(unit(ours), 2)
    assert scores.tolist() == [[7, 0]]
    assert rows.tolist() == [[0, 1]]


def test_a_cut_vector_has_length_one_again() -> None:
    """(0.6, 0.8) of (0.6, 0.8, 0, ...) and (0, 1) of (0, 0.5, 0.5, 0.5, 0.5)."""
    vectors = np.array([[0.6, 0.8, 0, 0, 0], [0, 0.5, 0.5, 0.5, 0.5]], np.float32)
    scores, _ = Plan("flat", dimensions=2).build(vectors).search(vectors[:1], 2)
    assert scores[0].tolist() == pytest.approx([1.0, 0.8])


def test_comparisons_by_hand() -> None:
    """All 24 cells hold all 600 vectors, and their 24 centroids were compared before."""
    assert Plan("flat").build(VECTORS).compared(ASKING, 10) == 600
    ivf = FULL["ivf"].build(VECTORS)
    assert ivf.compared(ASKING, 10) == 24 + 600
    one = replace(ivf, plan=Plan("ivf", nprobe=1))
    assert 24 < one.compared(ASKING, 10) < 24 + 600 / 4


def test_more_effort_compares_more() -> None:
    graph = Plan("hnsw", m=4, ef_construction=8).build(VECTORS)
    costs = [
        replace(graph, plan=Plan("hnsw", ef_search=ef)).compared(ASKING, 1) for ef in (1, 8, 64)
    ]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1] < 600


def test_bytes_per_vector() -> None:
    """32 floats of 4 bytes; a byte each; a bit each; 8 codes of 4 bits, an id of 8 bytes, and a
    share of 24 centroids and of 8 x 16 centroids of pieces."""
    sizes = {name: plan.build(VECTORS).bytes_per_vector for name, plan in FULL.items()}
    header = 0.5  # a few hundred bytes over 600 vectors
    assert sizes["flat"] == pytest.approx(32 * 4, abs=header)
    assert sizes["sq8"] == pytest.approx(32 + 2 * 32 * 4 / 600, abs=header)
    assert sizes["bits"] == pytest.approx(32 / 8, abs=header)
    learnt = (24 * 32 + 16 * 32) * 4 / 600
    assert sizes["ivf-pq"] == pytest.approx(4 + 8 + learnt, abs=2 * header + 24 * 8 / 600)
    assert sizes["hnsw"] > sizes["flat"] + 2 * 16 * 4


@pytest.mark.parametrize(
    ("plan", "mend"),
    [
        ({"kind": "annoy"}, "choose one of flat, hnsw"),
        ({"ef_search": 0}, "at least 1"),
        ({"kind": "flat", "dimensions": 33}, "take fewer"),
        ({"kind": "ivf", "nlist": 601}, "take fewer cells"),
        ({"kind": "ivf-pq", "pieces": 5}, "equal pieces"),
        ({"kind": "ivf-pq", "pieces": 8, "bits": 10}, "take fewer bits"),
        ({"kind": "bits", "dimensions": 12}, "multiple of 8"),
    ],
)
def test_a_plan_that_cannot_be_built_says_why(plan: dict[str, object], mend: str) -> None:
    with pytest.raises(RagLabError, match=mend):
        Plan(**plan).build(VECTORS)  # type: ignore[arg-type]


# -- the approximate retriever --------------------------------------------------------------------


@pytest.fixture(scope="module")
def many() -> Index:
    """All 720 orders of six words, told apart by how often each is repeated."""
    words = ("refund", "policy", "error", "limit", "user", "late")
    documents = [
        Document(
            f"d{row:03}",
            " ".join(word for times, word in enumerate(order) for _ in range(times + 1)),
            groups=("hr",) if row % 60 == 0 else (),
        )
        for row, order in enumerate(permutations(words))
    ]
    return built(documents)


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf", "sq8", "bits"])
def test_what_is_found_is_scored_rightly(many: Index, kind: str) -> None:
    query = Query("q", "late refund")
    hits = Approximate(many, EMBEDDER, Plan(kind, rescored=40)).retrieve(query, 10)
    scores = {h.chunk: h.score for h in Dense(many, EMBEDDER).retrieve(query, len(many.chunks))}
    assert len(hits) == 10
    assert [hit.score for hit in hits] == [scores[hit.chunk] for hit in hits]


def test_bits_count_agreement(many: Index) -> None:
    hits = Approximate(many, EMBEDDER, Plan("bits")).retrieve(Query("q", "late refund"), 5)
    vector = EMBEDDER.encode_query("late refund").vector
    for hit in hits:
        row = many.vectors[many.rows[hit.chunk.chunk_id]]
        assert hit.score == np.sum((row > 0) == (vector > 0))
        assert [part.name for part in hit.parts] == ["bits agreeing"]


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf", "sq8", "bits"])
def test_the_filter_acts_inside(many: Index, kind: str) -> None:
    hidden = [c for c in many.chunks if not Readable()(c)]
    assert len(hidden) == 12
    query = Query("q", hidden[0].text)
    retriever = Approximate(many, EMBEDDER, Plan(kind, rescored=20))
    assert hidden[0] in [hit.chunk for hit in retriever.retrieve(query, 5)]
    hits = retriever.retrieve(query, 5, Readable())
    assert len(hits) == 5
    assert not set(hidden) & {hit.chunk for hit in hits}


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_a_strict_filter_is_searched_whole(many: Index, kind: str) -> None:
    """Twelve of 720 chunks are allowed. The walk alone does not meet them all."""

    def restricted(c: Chunk) -> bool:
        return bool(c.groups)

    query = Query("q", "policy")
    plan = Plan(kind, m=4, ef_construction=8, ef_search=4, nprobe=1)
    retriever = Approximate(many, EMBEDDER, plan)
    exact = Dense(many, EMBEDDER).retrieve(query, 12, restricted)
    assert retriever.retrieve(query, 12, restricted) == exact
    assert len(replace(retriever, exact_below=0).retrieve(query, 12, restricted)) < 12


def test_a_batch_is_the_same_as_one_at_a_time(many: Index) -> None:
    queries = [Query("q", "late"), Query("q", " "), Query("q", "refund user")]
    retriever = Approximate(many, EMBEDDER)
    assert retriever.retrieve_many(queries, 7) == tuple(retriever.retrieve(q, 7) for q in queries)
    assert ids(retriever.retrieve(queries[1], 7)) == []


def test_the_exponent_of_noisy_costs() -> None:
    """A tenfold n for a cost that grows threefold, twice: log 3 / log 10."""
    assert exponent([1e4, 1e5, 1e6], [5, 15, 45]) == pytest.approx(np.log10(3))


def test_perturbed_vectors_lie_as_far_as_stated() -> None:
    """Noise as long as the vector, at a right angle to it: 1 / √2, and 1 / 2 between copies."""
    vectors = unit(RANDOM.normal(size=(3, 2000)))
    made = perturbed(vectors, 9, 1.0)
    assert np.allclose(np.linalg.norm(made, axis=1), 1, atol=1e-6)
    assert np.sum(made[:3] * vectors, axis=1) == pytest.approx([2**-0.5] * 3, abs=0.05)
    assert np.sum(made[:6] * made[3:], axis=1) == pytest.approx([0.5] * 6, abs=0.05)
    assert np.array_equal(made, perturbed(vectors, 9, 1.0))


def test_a_trial_knows_what_effort_costs_and_finds() -> None:
    trial = Trial(VECTORS, ASKING, 10)
    assert trial(FULL["ivf"]) == (24 + 600, 1.0)
    assert trial(Plan("flat")) == (600, 1.0)
    (few, poor), (many, good) = (trial.at("hnsw", effort) for effort in (1, 200))
    assert few < min(many, 600)
    assert poor < good


# -- panels ---------------------------------------------------------------------------------------

HOSTILE = "<script>alert(1)</script>\u202e\x00"


def mapped(index: Index) -> Panel:
    dense = Dense(index, EMBEDDER)
    return map_panel(
        lambda text, k: dense.retrieve(Query("q", text), k),
        lambda text: EMBEDDER.encode_query(text).vector,
        index.chunks,
        index.vectors,
        query="late fee",
        k=2,
    )


def test_a_projection_keeps_the_widest_directions_and_never_flips() -> None:
    """Points on a line of slope 1/2, and one direction that barely moves."""
    along, barely = np.array([2, 1, 0]), np.array([0, 0, 0.1])
    points = np.array([t * along + (-1) ** t * barely for t in range(-4, 5)], np.float32)
    found = Projection.fit(points)
    assert np.allclose(found.axes[0], along / np.sqrt(5), atol=1e-3)
    assert found.kept == pytest.approx(1, abs=1e-6)
    assert np.allclose(found.axes, Projection.fit(points[::-1]).axes, atol=1e-6)
    assert np.allclose(found(points[4:5]), found(points)[4:5])
    with pytest.raises(RagLabError, match="at least 3"):
        Projection.fit(points[:2])


def test_the_map_follows_its_knobs() -> None:
    panel = mapped(texts("refund policy", "late fee", "error list", "user limit"))
    assert "The nearest of 4 chunks is from 'd1#0', cosine 1.000" in panel.words
    assert "On paper it is number 1 from the query" in panel.words
    assert panel.html.count("<tr data-key") == 2
    panel.turn(query="error list", k=3)
    assert "from 'd2#0', cosine 1.000" in panel.words
    assert panel.html.count("<tr data-key") == 3
    assert panel.html.count('data-key="d2#0"') == 3  # the point, its number, its row
    panel.turn(query=" ")
    assert panel.words == "Nothing is asked for: type a query."
    assert "Distance on paper is not the score" in panel.html


def test_the_map_shows_hostile_text_as_text() -> None:
    documents = [Document(f"d{n}", f"late fee {n}", title=HOSTILE, source=HOSTILE) for n in "1234"]
    panel = mapped(built(documents)).turn(query=f"late {HOSTILE}")
    assert not panel.status
    assert "<script" not in panel.html
    assert "<bdi>&lt;script&gt;" in panel.html  # the order of its letters ends where it ends
    assert not {"\x00", "\u202e"} & set(panel.words)


def test_the_sliders_move_along_the_curve() -> None:
    asked: list[tuple[str, int]] = []

    def trial(kind: str, effort: int) -> tuple[float, float]:
        asked.append((kind, effort))
        return 10.0 * effort, min(1.0, effort / 100)

    panel = effort_panel(trial, 10_000).turn(ef_search=50, nprobe=4)
    assert panel.words == (
        "efSearch 50 compares 500 of 10000 vectors and finds 0.500 of the exact 10; "
        "nprobe 4 compares 40 of 10000 vectors and finds 0.040 of the exact 10."
    )
    assert asked[-2:] == [("hnsw", 50), ("ivf", 4)]
    panel.turn(ef_search=999)
    assert "from 1 to 256" in panel.status
    assert "efSearch 50" in panel.words


def test_growth_says_by_how_much() -> None:
    costs = {
        "comparisons": {"exact": [(10.0, 10.0), (1000.0, 1000.0)], "hnsw": [(10, 5), (1000, 15)]},
        "milliseconds": {"exact": [(10.0, 0.1), (1000.0, 2.0)], "hnsw": [(10, 0.1), (1000, 0.3)]},
    }
    panel = growth_panel(costs)
    told = "With 100 times the vectors, comparisons grow: exact 100.0 times, hnsw 3.0 times."
    assert panel.words == told
    assert "milliseconds grow: exact 20.0 times" in panel.turn(cost="milliseconds").words
