"""The structures behind approximate search, as a table: how each is built, and how searched.

Two ideas, and their mixture.  Compare fewer vectors:

    hnsw     a graph of neighbours, walked greedily; Malkov and Yashunin 2018
    ivf      vectors sorted into cells by k-means; the nearest cells alone are read
             (Sivic and Zisserman 2003)

Compare shorter vectors:

    sq8      a byte for each float
    ivf-pq   in cells, and a code for each piece of a vector; Jégou, Douze and Schmid 2011
    bits     the sign of each float; the distance is the number of bits that differ (Hamming)
    flat     all floats; with `dimensions`, the first d alone.  Models trained for it keep most of
             their worth there (Kusupati et al. 2022, "Matryoshka"); the bundled one was not.

Any of them can name `rescored` candidates, to be scored again with the whole vectors.  They are
FAISS's (Douze et al. 2024).  Built on one thread, equal vectors give equal structures.

Left out: structures on disk, and deleting from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raglab.ingest.embed import unit
from raglab.retrieve.dense import cosines, faiss, selector
from raglab.retrieve.ranking import Mask
from raglab.types import RagLabError, Vectors

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]

LEAST = {"m": 2, "ef_construction": 1, "ef_search": 1, "nlist": 0, "nprobe": 1, "pieces": 1}
LEAST |= {"bits": 1, "dimensions": 0, "rescored": 0}


@dataclass(frozen=True)
class Plan:
    """How vectors are indexed and searched. A kind looks at its own knobs and no others."""

    kind: str = "hnsw"
    m: int = 16  # hnsw: links of a vector, twice as many in the lowest layer
    ef_construction: int = 80  # hnsw: candidates kept while a vector is linked
    ef_search: int = 64  # hnsw: candidates kept while searching
    nlist: int = 0  # ivf: cells; 0 is about √n
    nprobe: int = 8  # ivf: cells that are read
    pieces: int = 48  # ivf-pq: codes of a vector
    bits: int = 8  # ivf-pq: of a code
    dimensions: int = 0  # any: the first so many alone; 0 is all
    rescored: int = 0  # any: so many are scored again with the whole vectors; 0 is none

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise RagLabError(f"no index {self.kind!r}: choose one of {', '.join(KINDS)}")
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise RagLabError(f"{name} is {getattr(self, name)}: it must be at least {least}")

    @property
    def to_build(self) -> Plan:
        """Without the knobs that act while searching: plans that build the same are equal here."""
        return replace(self, ef_search=1, nprobe=1, rescored=0)

    def build(self, vectors: Vectors, *, threads: int = 1) -> Built:
        """vectors: [n, d] of length 1. More threads are faster, and link a graph another way."""
        if self.dimensions > vectors.shape[1]:
            raise RagLabError(f"dimensions is {self.dimensions} of {vectors.shape[1]}: take fewer")
        structure = KINDS[self.kind](self, len(vectors), self.dimensions or vectors.shape[1])
        taken = self.taken(vectors)
        with _threads(threads):
            if not structure.is_trained:
                structure.train(taken)
            structure.add(taken)
        return Built(self, vectors, structure)

    def taken(self, vectors: Vectors) -> Any:
        """What FAISS is given of vectors: cut to the first dimensions, or as bytes of signs."""
        cut = unit(vectors[:, : self.dimensions]) if self.dimensions else vectors
        return np.packbits(cut > 0, axis=1) if self.kind == "bits" else np.ascontiguousarray(cut)

    def parameters(self, allowed: Any) -> Any:
        """How FAISS searches: `allowed` is the filter, or None."""
        if self.kind == "hnsw":
            return faiss().SearchParametersHNSW(efSearch=self.ef_search, sel=allowed)
        if self.kind in ("ivf", "ivf-pq"):
            return faiss().SearchParametersIVF(nprobe=self.nprobe, sel=allowed)
        return faiss().SearchParameters(sel=allowed)


@dataclass(frozen=True, eq=False)
class Built:
    """A FAISS structure, and the whole vectors that it stands for."""

    plan: Plan
    vectors: Vectors
    structure: Any

    def search(self, queries: Vectors, k: int, eligible: Mask | None = None) -> tuple[Scores, Rows]:
        """[b, r] each, best first; r is k, or `rescored` where that is more, and n at most.

        Scores are cosines as the structure sees them (a coarse one may pass 1), or for "bits" the
        bits that agree.  A row of -1 says that nothing more was found.
        """
        depth = min(max(k, self.plan.rescored), len(self.vectors))
        parameters = self.plan.parameters(None if eligible is None else selector(eligible))
        scores, rows = self.structure.search(self.plan.taken(queries), depth, params=parameters)
        if self.plan.kind == "bits":
            scores = self.structure.d - scores
        if self.plan.rescored:
            pairs = zip(queries, rows, strict=True)
            scores = np.stack([cosines(query, self.vectors, found) for query, found in pairs])
            scores[rows < 0] = -np.inf
            order = np.argsort(-scores, axis=1, kind="stable")
            scores, rows = (np.take_along_axis(x, order, axis=1) for x in (scores, rows))
        return scores.astype(float), rows

    def compared(self, queries: Vectors, k: int) -> float:
        """Vectors, codes and centroids compared a query, on average: a cost that no clock blurs.

        FAISS counts for the whole process: nothing else may search meanwhile.
        """
        counters = {"hnsw": "hnsw_stats", "ivf": "indexIVF_stats", "ivf-pq": "indexIVF_stats"}
        if self.plan.kind not in counters:
            return float(len(self.vectors))
        counter = getattr(faiss().cvar, counters[self.plan.kind])
        counter.reset()
        with _threads(1):
            self.search(queries, k)
        centroids = 0 if self.plan.kind == "hnsw" else self.structure.nlist
        return float(counter.ndis / len(queries) + centroids)

    @property
    def bytes_per_vector(self) -> float:
        """Of the structure as it would be saved; the whole vectors for rescoring not counted."""
        binary = self.plan.kind == "bits"
        write = faiss().serialize_index_binary if binary else faiss().serialize_index
        return float(len(write(self.structure)) / len(self.vectors))


def _hnsw(plan: Plan, n: int, d: int) -> Any:
    graph = faiss().IndexHNSWFlat(d, plan.m, faiss().METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = plan.ef_construction
    return graph


def _cells(plan: Plan, n: int, d: int) -> Any:
    cells = plan.nlist or round(n**0.5)
    if cells > n:
        raise RagLabError(f"nlist is {cells}, and there are {n} vectors: take fewer cells")
    quantizer = faiss().IndexFlatIP(d)
    if plan.kind == "ivf":
        ivf = faiss().IndexIVFFlat(quantizer, d, cells, faiss().METRIC_INNER_PRODUCT)
    else:
        if d % plan.pieces:
            raise RagLabError(f"{d} dimensions do not fall into {plan.pieces} equal pieces")
        if n < 2**plan.bits:
            raise RagLabError(
                f"codes of {plan.bits} bits are learnt from at least {2**plan.bits} vectors, and "
                f"there are {n}: take fewer bits, or another index"
            )
        ivf = faiss().IndexIVFPQ(
            quantizer, d, cells, plan.pieces, plan.bits, faiss().METRIC_INNER_PRODUCT
        )
        ivf.pq.cp.min_points_per_centroid = 1  # else FAISS warns where a lesson is small
        ivf.pq.cp.max_points_per_centroid, ivf.pq.cp.niter = 64, 10  # FAISS: 256 and 25, slower
    ivf.cp.spherical = True  # centroids of length 1, as the vectors
    ivf.cp.min_points_per_centroid = 1
    return ivf


def _sq8(plan: Plan, n: int, d: int) -> Any:
    quantizer = faiss().ScalarQuantizer
    return faiss().IndexScalarQuantizer(d, quantizer.QT_8bit, faiss().METRIC_INNER_PRODUCT)


def _bits(plan: Plan, n: int, d: int) -> Any:
    if d % 8:
        raise RagLabError(f"{d} signs do not fill whole bytes: take a multiple of 8 dimensions")
    return faiss().IndexBinaryFlat(d)


KINDS: Mapping[str, Callable[[Plan, int, int], Any]] = {
    "flat": lambda plan, n, d: faiss().IndexFlatIP(d),
    "hnsw": _hnsw,
    "ivf": _cells,
    "ivf-pq": _cells,
    "sq8": _sq8,
    "bits": _bits,
}
"""kind -> an empty FAISS structure for n vectors of d dimensions."""


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = faiss().omp_get_max_threads()
    faiss().omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss().omp_set_num_threads(before)
