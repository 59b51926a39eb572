"""Generating: an answer that says only what its sources say, and cites them.

*Extractive* (`extractive.py`) needs no language model: it repeats the statements that answer best,
each cited, or refuses.  *PromptedGenerator* (`grounded.py`) asks a language model, under the same
rules: use the sources alone, cite each claim, refuse when they do not hold the answer.
"""

from raglab.answer.extractive import Extractive, Support
from raglab.answer.grounded import SYSTEM, PromptedGenerator, cited, grounded_prompt
from raglab.types import REFUSAL

__all__ = [
    "REFUSAL", "SYSTEM", "Extractive", "PromptedGenerator", "Support", "cited", "grounded_prompt",
]  # fmt: skip
