"""From bags to histograms."""
