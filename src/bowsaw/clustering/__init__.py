"""Clustering: training of codebooks."""

from bowsaw.clustering.kmeans import KMeansCodebook

__all__ = ["KMeansCodebook"]
