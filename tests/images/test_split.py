import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowsaw.errors import DataError, ParameterError
from bowsaw.images.split import auto_sizes, check_sizes, split_by_class


@st.composite
def collections(draw):
    """Return shuffled labels, class names, and sizes of the parts that fit."""
    codebook, train = draw(st.integers(0, 4)), draw(st.integers(1, 4))
    names = draw(st.lists(st.text(max_size=5), min_size=1, max_size=5, unique=True))
    counts = [draw(st.integers(codebook + train + 1, 15)) for _ in names]
    y = np.repeat(np.arange(len(names)), counts)
    order = np.random.default_rng(draw(st.integers(0, 100))).permutation(len(y))
    return y[order], names, codebook, train


seeds = st.integers(0, 2**64)


@given(collections(), seeds, st.integers(0, 10))
def test_parts_are_disjoint_and_cover_everything(collection, seed, index):
    y, names, codebook, train = collection
    split = split_by_class(y, names, codebook=codebook, train=train, seed=seed, index=index)
    parts = [split.codebook, split.train, split.test]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(y)))
    np.testing.assert_array_equal(split.part("all"), np.arange(len(y)))
    for part in parts:
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()
        assert not part.flags.writeable


@given(collections(), seeds)
def test_a_class_more_or_less_moves_no_image_of_the_others(collection, seed):
    y, names, codebook, train = collection
    options = {"codebook": codebook, "train": train, "seed": seed, "index": 2}
    split = split_by_class(y, names, **options)
    for label, name in enumerate(names):
        own = np.flatnonzero(y == label)
        alone = split_by_class(np.zeros(len(own), dtype=int), [name], **options)
        for part in ("codebook", "train", "test"):
            together = [row for row in split.part(part).tolist() if y[row] == label]
            assert own[alone.part(part)].tolist() == together


def test_a_seed_fixes_the_split_and_other_seeds_or_indices_differ():
    y = np.repeat([0, 1], 50)

    def train_of(**options):
        return tuple(split_by_class(y, "ab", codebook=10, train=10, **options).train)

    assert train_of(seed=3, index=1) == train_of(seed=3, index=1)
    drawn = {train_of(seed=seed, index=index) for seed in range(3) for index in range(3)}
    assert len(drawn) == 9
    # Splits are part of published numbers: a change here is a change of everybody's results.
    split = split_by_class(np.zeros(12, dtype=int), ["Coast"], codebook=3, train=3, seed=0)
    assert split.codebook.tolist() == [3, 5, 11]
    assert split.train.tolist() == [2, 4, 8]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"codebook": -1}, "codebook must be an integer of at least 0; got -1"),
        ({"train": 0}, "train must be an integer of at least 1; got 0"),
        ({"index": -1}, "index must be an integer of at least 0; got -1"),
        ({"seed": -1}, "seed must be an integer of at least 0; got -1"),
    ],
)
def test_parameters_out_of_range(options, words):
    with pytest.raises(ParameterError, match=words):
        split_by_class([0] * 5, ["a"], **({"codebook": 1, "train": 1} | options))


def test_too_few_images_unknown_parts_and_labels_that_are_none_are_refused():
    few = [0] * 9 + [1] * 4
    with pytest.raises(DataError) as refused:
        split_by_class(few, ["cat", "dog"], codebook=2, train=2)
    assert str(refused.value) == (
        "class 'dog' has 4 images, and a split of 2/2/rest needs at least 5 per class. Give "
        "smaller parts, such as 1/1/rest, or move its folder away."
    )
    with pytest.raises(DataError, match=r"--split 2/2/rest needs .* such as --split 1/1/rest, or"):
        check_sizes(few, ["cat", "dog"], 2, 2, "--split")
    with pytest.raises(DataError, match=r"class 'dog' has 0 images.* per class\. Move its folder"):
        split_by_class([0] * 9, ["cat", "dog"], codebook=2, train=2)
    with pytest.raises(ParameterError, match=r"part must be one of .*; got 'valid'"):
        split_by_class([0] * 5, ["a"], codebook=1, train=1).part("valid")
    for y in ([0, 0, 2], [-1, 0, 0], [[0, 0, 0]], [0.0, 0.0, 0.0], ["a", "a", "a"], []):
        with pytest.raises(DataError, match="y must be"):
            split_by_class(y, ["a", "b"], codebook=0, train=1)


@pytest.mark.parametrize(
    ("counts", "sizes"),
    [((150, 900), (50, 50)), ((149, 900), (49, 49)), ((3, 3), (1, 1)), ((2, 90), None)],
)
def test_the_usual_sizes_leave_images_of_each_class_to_test(counts, sizes):
    y = np.repeat(np.arange(len(counts)), counts)
    assert auto_sizes(y, "ab") == sizes
    if sizes is not None:
        split = split_by_class(y, "ab", codebook=sizes[0], train=sizes[1])
        assert set(y[split.test]) == {0, 1}
        assert split.sizes == f"{sizes[0]}/{sizes[1]}/rest"


def test_the_digest_is_of_the_rows_and_of_what_drew_them():
    y = np.repeat([0, 1], 20)
    digests = {
        split_by_class(y, "ab", codebook=4, train=train, seed=seed, index=index).digest
        for train in (4, 5)
        for seed in (0, 1)
        for index in (0, 1)
    }
    assert len(digests) == 8
    split = split_by_class(y, "ab", codebook=4, train=5)
    assert split.record() == {
        "codebook": 4,
        "train": 5,
        "seed": 0,
        "index": 0,
        "digest": split_by_class(y, "ab", codebook=4, train=5).digest,
    }
