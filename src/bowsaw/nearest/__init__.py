"""Exact nearest words of descriptors."""

from bowsaw.nearest.search import nearest_words

__all__ = ["nearest_words"]
