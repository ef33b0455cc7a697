"""The front door: scores by name."""

from __future__ import annotations

from typing import Any

from bowsaw.errors import ParameterError
from bowsaw.scores.base import Score
from bowsaw.scores.counts import Counts
from bowsaw.scores.leave_one_out import LeaveOneOut
from bowsaw.scores.mrmr import MaxRelevanceMinRedundancy
from bowsaw.scores.presence import Presence
from bowsaw.scores.relevance import Relevance
from bowsaw.validation import check_options

SCORES: dict[str, type[Score]] = {
    score.name: score
    for score in (Relevance, Counts, Presence, MaxRelevanceMinRedundancy, LeaveOneOut)
}
"""The scores that have a name."""


def make_score(score: str | Score, **options: Any) -> Score:
    """Return a score, ready for ``begin``.

    Parameters
    ----------
    score : str or Score
        ``"relevance"`` (the paper's), ``"counts"``, ``"presence"``, ``"mrmr"``,
        ``"leave-one-out"``; or a score, of which a copy is returned.
    **options
        Its parameters, for a name.

    Examples
    --------
    >>> from bowsaw.scores.make import make_score
    >>> make_score("presence", measure="chi2").name
    'presence'
    """
    if isinstance(score, Score):
        if options:
            raise ParameterError(
                f"options ({', '.join(sorted(options))}) belong to a score's name; this score is "
                "made already. Make it with them."
            )
        return score.copy()
    if score not in SCORES:
        raise ParameterError(f"score must be one of {', '.join(SCORES)}; got {score!r}.")
    make = SCORES[score]
    check_options(make, options, f"score={score!r}")
    return make(**options)
