"""Scores: how well a set of words separates the classes."""

from bowsaw.scores.base import Score, make_score
from bowsaw.scores.leave_one_out import LeaveOneOut
from bowsaw.scores.presence import Presence
from bowsaw.scores.relevance import Relevance

__all__ = ["LeaveOneOut", "Presence", "Relevance", "Score", "make_score"]
