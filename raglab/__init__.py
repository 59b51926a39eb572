"""RAG Lab: retrieval-augmented generation, every stage in the open.

>>> import raglab
>>> pipeline = raglab.open_lab("handbook")          # doctest: +SKIP
>>> trace = pipeline.run("What does ERR_2043 mean?")  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raglab.lab import golden_questions as golden_questions
    from raglab.lab import open_lab as open_lab

__version__ = "0.1.0"
__all__ = ["golden_questions", "open_lab"]


def __getattr__(name: str) -> Any:
    # Loaded when first used, so that `import raglab` stays instant.
    if name in __all__:
        from raglab import lab

        return getattr(lab, name)
    raise AttributeError(f"module 'raglab' has no attribute {name!r}")
