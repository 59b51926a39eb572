"""To learn by predicting: challenges, how good a guess was, and results that are kept.

It plays with what was recorded: it computes no retrieval and draws nothing.
"""

from raglab.learn.attempt import Attempt
from raglab.learn.knob import KnobChallenge, KnobReveal, judge_knob
from raglab.learn.predict import Challenge, Reveal, judge, order_challenge
from raglab.learn.progress import Progress
from raglab.learn.summary import Summary, Tally, summarize

__all__ = [
    "Attempt",
    "Challenge",
    "KnobChallenge",
    "KnobReveal",
    "Progress",
    "Reveal",
    "Summary",
    "Tally",
    "judge",
    "judge_knob",
    "order_challenge",
    "summarize",
]
