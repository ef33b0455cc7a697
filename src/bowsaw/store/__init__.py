"""Descriptors on disk: resumable, atomic, fingerprinted."""

from bowsaw.store.extraction import extract
from bowsaw.store.histograms import read_histograms
from bowsaw.store.store import Store

__all__ = ["Store", "extract", "read_histograms"]
