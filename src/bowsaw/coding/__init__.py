"""Coding: bags to histograms."""

from bowsaw.coding.bag_of_words import BagOfWords

__all__ = ["BagOfWords"]
