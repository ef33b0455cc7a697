"""The paper's Λ: who inherits the mass of pruned words, told from histograms."""
