"""The check of a refinement: words stay where labels mean nothing, and move where that helps."""

import numpy as np
import pytest

import bowsaw as bs

SHAPES = {
    "tiny": (30, 15, 3, 2, 12, 4, 20),
    "few bags": (60, 20, 4, 3, 20, 6, 30),
    "many words": (60, 20, 4, 2, 30, 15, 30),
    "long bags": (40, 60, 2, 2, 16, 3, 40),
    "many classes": (200, 40, 16, 10, 60, 20, 30),
}
"""Bags, descriptors of each, dimensions, classes, words, kept words, steps."""


def drawn(random, n_bags, n_rows, n_dims):
    """Bags that differ from each other as images do: mixtures of common centres."""
    centres = random.normal(size=(20, n_dims))
    shares = random.dirichlet(np.full(20, 0.5), n_bags)
    return [
        centres[random.choice(20, n_rows, p=share)] + random.normal(0, 0.5, (n_rows, n_dims))
        for share in shares
    ]


def n_moved(shape, n_fits, start=None):
    moved = 0
    for seed in range(n_fits):
        random = np.random.default_rng(seed)
        n_bags, n_rows, n_dims, n_classes, n_words, n_kept, n_steps = shape
        bags = drawn(random, n_bags, n_rows, n_dims)
        book = bs.Codebook(np.concatenate(bags)[random.permutation(n_bags * n_rows)[:n_words]])
        y = random.permutation(np.arange(n_bags) % n_classes)
        how = {"n_steps": n_steps, "random_state": seed, "n_jobs": 1}
        first = bs.RandomSubset(random_state=seed) if start is None else start
        moved += bs.Refinement(book, n_kept, start=first, **how).fit(bags, y).moved_ > 0
    return moved


@pytest.mark.parametrize("name", SHAPES)
def test_labels_without_meaning_move_words_in_at_most_one_fit_of_ten(name):
    assert n_moved(SHAPES[name], 10) <= 1


def test_nor_do_they_with_images_of_the_size_of_the_benchmarks():
    # 250 images of 10 classes, 128 dimensions, words chosen by the labels first.
    start = bs.Annealing(n_steps=100, random_state=0)
    assert n_moved((250, 200, 128, 10, 300, 20, 60), 5, start) == 0


def test_words_move_where_classes_differ_beside_them():
    moved, helped = 0, 0
    for seed in range(10):
        random = np.random.default_rng(seed)
        y = np.arange(120) % 2
        bags = [random.normal([0.6 * label, 0.0, 0.0], [0.6, 2.0, 2.0], (40, 3)) for label in y]
        # Words along the coordinates that do not matter.
        book = bs.Codebook(np.column_stack([np.full(12, 0.3), random.normal(0, 2, (12, 2))]))
        start = bs.RandomSubset(random_state=seed)
        how = {"start": start, "n_steps": 60, "random_state": seed, "n_jobs": 1}
        found = bs.Refinement(book, 4, **how).fit(bags[:60], y[:60])
        unmoved = start.set_params(codebook=book, n_kept=4).fit(bags[:60])
        right = [
            bs.HistogramClassifier(random_state=0, n_jobs=1)
            .fit(one.transform(bags[:60]), y[:60])
            .score(one.transform(bags[60:]), y[60:])
            for one in (found, unmoved)
        ]
        moved += found.moved_ > 0
        helped += right[0] > right[1]
    assert moved >= 9
    assert helped >= 8
