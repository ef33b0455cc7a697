"""Which word has which column after a swap, the slow and obvious way: lists of words."""


def after_swap(kept, out, in_):
    """The words by column: newcomers in the places of those that go, then holes or more columns."""
    columns = list(kept)
    places = [columns.index(word) for word in out]
    for place, word in zip(places, in_, strict=False):
        columns[place] = word
    columns += list(in_)[len(out) :]
    holes = sorted(places[len(in_) :])
    n_after = len(columns) - len(holes)
    movers = [columns[place] for place in range(n_after, len(columns)) if place not in holes]
    for hole in holes:
        if hole < n_after:
            columns[hole] = movers.pop(0)
    return columns[:n_after]


def any_move(random, state, most=4):
    """Words to let go and to let come, in numbers that may differ, so that a word or more is left.

    Seldom a great leap, to few words or back to nearly all.
    """
    kept = state.kept.tolist()
    pruned = sorted(set(state.codebook.ids.tolist()) - set(kept))
    most = state.codebook.n_words if random.random() < 0.05 else most
    n_in = int(random.integers(0, min(most, len(pruned)) + 1))
    n_out = int(random.integers(0, min(most, len(kept) - (n_in == 0)) + 1))
    out, in_ = random.permutation(len(kept))[:n_out], random.permutation(len(pruned))[:n_in]
    return [kept[i] for i in out], [pruned[i] for i in in_]
