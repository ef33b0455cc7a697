"""A verdict for each claim of the paper, from the records of a run alone."""
