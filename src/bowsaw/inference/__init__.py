"""What the histograms would be with fewer words, without coding a descriptor again."""
