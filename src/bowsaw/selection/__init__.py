"""Which words to keep: searches, rankings, merges and baselines, all answering alike."""
