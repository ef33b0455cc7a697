"""Measurements beside the cells: what the paper claims and no accuracy can tell."""
