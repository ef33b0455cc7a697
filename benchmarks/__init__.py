"""Measurements against named peers; ``make bench`` runs them and writes RESULTS.md."""
