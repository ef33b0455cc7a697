"""How good a codebook is."""
