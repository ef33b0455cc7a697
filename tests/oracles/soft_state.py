"""Soft coding with the kept words alone, in float64, and moves to hold states to it."""

import numpy as np
from tests.oracles.coding import soft_histogram


def recode(bags, words, sharpness):
    """The soft histograms of every bag, in unit-norm units."""
    unit_words = np.asarray(words, np.float64) / bags.scale
    rows = [np.asarray(bag, np.float64) / bags.scale for bag in bags]
    return np.array([soft_histogram(bag, unit_words, sharpness) for bag in rows]).reshape(
        len(bags), len(words)
    )


def truth(state, bags):
    """What the state should show: re-coding with its kept words, in the order of its columns."""
    book = state.codebook
    words = book.words_for(bags)[book.positions(state.kept)]
    return recode(bags, words, state.sharpness)


def l1_errors(state, bags):
    """Each bag's L1 distance between what the state shows and the truth."""
    return np.abs(state.histograms.astype(np.float64) - truth(state, bags)).sum(axis=1)


def wander(state, random, n_moves, fewest=2, most_moved=4):
    """Make random moves, words going and coming in unequal numbers."""
    ids = state.codebook.ids
    for _ in range(n_moves):
        kept = state.kept
        pruned = np.setdiff1d(ids, kept)
        n_out = random.integers(0, min(most_moved, len(kept) - fewest) + 1)
        n_in = random.integers(0, min(most_moved, len(pruned)) + 1)
        out = random.choice(kept, n_out, replace=False)
        state.swap(remove=out, add=random.choice(pruned, n_in, replace=False))
    return state
