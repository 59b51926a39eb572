"""Traces made up for the tests of views: seeded, and of a real run's shape."""

from __future__ import annotations

import random

from raglab.trace import Step, Trace
from raglab.types import (
    Answer,
    Chunk,
    Citation,
    Context,
    Drop,
    Hit,
    Part,
    Query,
    Ranking,
)

TOPICS = ("policy-refunds", "api-auth", "errors", "release-2026-03", "tickets", "pricing-plans")
WORDS = ("refund", "customer", "days", "plan", "invoice", "the", "a", "within", "payment", "region")
QUESTION = "How long do enterprise customers have to ask for a refund?"
TERMS = ("long", "enterprise", "customers", "ask", "refund")


def a_chunk(number: int, chance: random.Random, hostile: str = "") -> Chunk:
    topic = TOPICS[number % len(TOPICS)]
    chunk_id = f"{topic}#{number}{hostile}"
    text = " ".join(chance.choice(WORDS) for _ in range(chance.randint(70, 110)))
    title = topic.replace("-", " ").title() + hostile
    return Chunk(
        chunk_id,
        topic,
        f"{text}. {hostile}",
        0,
        len(text),
        heading=f"{title} > Section {number}",
        title=title,
        source=f"data/corpus/{topic}.md",
        updated="2026-03-01",
    )


def a_ranking(scored: dict[Chunk, tuple[Part, ...]]) -> Ranking:
    totals = {chunk: sum(part.value for part in parts) for chunk, parts in scored.items()}
    order = sorted(scored, key=lambda chunk: (-totals[chunk], chunk.chunk_id))
    return tuple(
        Hit(chunk, totals[chunk], rank, scored[chunk]) for rank, chunk in enumerate(order, start=1)
    )


def a_trace(
    k: int = 20,
    *,
    depth: int = 20,
    keep: int = 8,
    queries: int = 1,
    seed: int = 7,
    hostile: str = "",
) -> Trace:
    """A run over a collection of `3 * k` chunks; `hostile` is put into every text of a chunk."""
    chance = random.Random(seed)
    chunks = [a_chunk(number, chance, hostile) for number in range(3 * k)]
    first = Query("q1", QUESTION + hostile)
    variants = [first, *(Query(f"q{n}", f"rewrite {n}", "rewriter") for n in range(2, queries + 1))]
    steps = [Step("rewrite", "rewrite", (), tuple(variants), seconds=0.00002)]
    lists: dict[str, Ranking] = {}
    for number in range(1, queries + 1):
        suffix = "" if number == 1 else f" {number}"
        near = {chunk: (Part("cosine", chance.gauss(0.4, 0.1)),) for chunk in chunks}
        said = {
            chunk: tuple(Part(term, chance.expovariate(1)) for term in TERMS) for chunk in chunks
        }
        lists[f"dense{suffix}"] = a_ranking(near)[:k]
        lists[f"sparse{suffix}"] = a_ranking(said)[:k]
    for name, hits in lists.items():
        steps.append(
            Step(name, "retrieve", ("rewrite",), hits, seconds=chance.uniform(0.001, 0.01))
        )
    fused = fuse(lists)
    steps.append(Step("fused", "fuse", tuple(lists), fused, seconds=0.00012, reused=True))
    reranked = rerank(fused[:depth], chance)
    steps.append(Step("reranked", "rerank", ("fused",), reranked, seconds=0.0123))
    context = assemble(reranked, keep)
    steps.append(Step("context", "assemble", ("reranked",), context, seconds=0.0004))
    cited = [(2, "within 45 days of the invoice"), (1, "a written request")]
    answer = Answer(
        f"Enterprise customers have 45 days from the invoice [2]. Send a written request "
        f"[1].{hostile}",
        tuple(
            Citation(number, context.kept[number - 1].chunk.chunk_id, quote + hostile)
            for number, quote in cited
            if number <= len(context.kept)
        ),
        False,
        "extractive",
    )
    steps.append(Step("answer", "generate", ("context",), answer, seconds=0.0031))
    return Trace(first, tuple(steps))


def fuse(lists: dict[str, Ranking]) -> Ranking:
    parts: dict[Chunk, tuple[Part, ...]] = {}
    for name, hits in lists.items():
        for hit in hits:
            parts[hit.chunk] = (*parts.get(hit.chunk, ()), Part(name, 1 / (60 + hit.rank)))
    return a_ranking(parts)


def rerank(hits: Ranking, chance: random.Random) -> Ranking:
    tokens = ("how", "long", "do", "enterprise", "customers", "have", "to", "ask", "refund", "?")
    return a_ranking(
        {
            hit.chunk: (
                Part("first stage", chance.gauss(0, 0.7)),
                *(Part(f"match: {token}", chance.gauss(0.05, 0.1)) for token in tokens),
            )
            for hit in hits
        }
    )


def assemble(hits: Ranking, keep: int) -> Context:
    """Of the best `keep`, the third is a near copy and the last does not fit."""
    kept, dropped = [], []
    for hit in hits:
        if hit.rank > keep:
            dropped.append(Drop(hit, f"rank {hit.rank}, cut at {keep}"))
        elif hit.rank == 3:
            dropped.append(Drop(hit, f"duplicate of {hits[0].chunk.chunk_id}"))
        elif hit.rank == keep:
            dropped.append(Drop(hit, "over the budget by 41 tokens"))
        else:
            kept.append(hit)
    text = "\n".join(f"[{n}] {hit.chunk.text}" for n, hit in enumerate(kept, start=1))
    return Context(text, tuple(kept), tuple(dropped), 1312, 1500)
