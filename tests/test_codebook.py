import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError, MismatchError, ParameterError

ABOUT = {"name": "test", "sizes": [4, 8]}


@pytest.fixture
def book():
    return Codebook(
        np.arange(12.0).reshape(6, 2),
        [9, 2, 30, 4, 0, 7],
        scale=512,
        description=ABOUT,
        provenance={"seed": 1, "split": {"train": 5}},
        trained_on=[7, 3, 2**64 - 1, 3],
    )


def rows_by_id(book):
    return dict(zip(book.ids.tolist(), book.words.tolist(), strict=True))


@given(st.lists(st.integers(0, 7), unique=True, min_size=1), st.data())
def test_ids_name_the_same_words_through_any_pruning(kept, data):
    random = np.random.default_rng(0)
    whole = Codebook(random.normal(size=(8, 3)), random.permutation(8))
    once = whole.only(kept)
    again = data.draw(st.lists(st.sampled_from(kept), unique=True, min_size=1))
    assert once.only(again) == whole.only(again)
    expected = rows_by_id(whole)
    for pruned in (once, once.only(again)):
        assert rows_by_id(pruned) == {i: expected[i] for i in pruned.ids.tolist()}
    gone = sorted(set(kept) - set(again))
    assert rows_by_id(once.without(gone)) == rows_by_id(whole.only(again))
    assert [name for name in once.names() if name in whole.names()] == list(once.names())


def test_only_keeps_the_order_given_and_everything_but_the_words_is_carried(book):
    kept = book.only([30, 9, 7])
    assert kept.ids.tolist() == [30, 9, 7]
    assert kept.words.tolist() == [[4, 5], [0, 1], [10, 11]]
    for pruned in (kept, book.without([4]), book.with_provenance(more=1)):
        assert (pruned.scale, pruned.metric, pruned.description) == (512, "euclidean", ABOUT)
        assert pruned.provenance["split"] == {"train": 5}
        assert pruned.trained_on.tolist() == [3, 7, 2**64 - 1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([1], r"word 1 is not in the codebook \(it has 6 words, ids 0 to 30\)"),
        ([2**62], "word 4611686018427387904 is not in the codebook"),
        ([4, 2, 4], "names a word twice"),
        ([0.5], "integers"),
        (4, "list of integers"),
        ([[4, 2]], "list of integers"),
    ],
)
def test_other_words_are_refused(book, words, message):
    for method in (book.only, book.without):
        with pytest.raises(ParameterError, match=message):
            method(words)


def test_a_codebook_needs_a_word(book):
    with pytest.raises(ParameterError, match=r"words has all 6 words.*Keep a word"):
        book.without(book.ids)
    with pytest.raises(ParameterError, match=r"words is empty.*Keep a word"):
        book.only([])


def test_a_codebook_is_a_copy_that_cannot_be_written(book):
    words, ids, digests = np.ones((2, 3), np.float32), np.array([4, 5]), np.array([1], np.uint64)
    made = Codebook(words, ids, trained_on=digests)
    words[:], ids[:], digests[:] = 0, 0, 0
    assert (made.words == 1).all()
    assert (made.ids.tolist(), made.trained_on.tolist()) == ([4, 5], [1])
    assert clone(book) is book
    copies = [pickle.loads(pickle.dumps(book)), copy.copy(book), copy.deepcopy(book)]
    assert all(again == book for again in copies)
    for again in (made, made.only([5]), *copies):
        for array in (again.words, again.ids, again.trained_on):
            with pytest.raises(ValueError, match="read-only"):
                array[:] = 0


def test_equal_codebooks_are_equal_and_hash_alike(book):
    about = {"scale": 512, "description": {"sizes": (4, 8), "name": "test"}}
    about |= {"provenance": book.provenance, "trained_on": [2**64 - 1, 7, 3]}
    same = Codebook(book.words, book.ids, **about)
    assert same == book
    assert len({same, book}) == 1
    assert len({Codebook([[0.0]]), Codebook([[-0.0]])}) == 1
    changes = [
        {"scale": 1},
        {"description": None},
        {"provenance": None},
        {"trained_on": None},
        {"trained_on": [1]},
        {"words": book.words + 1},
        {"ids": book.ids + 1},
    ]
    given = {"words": book.words, "ids": book.ids, **about}
    others = [Codebook(**given | change) for change in changes]
    for other in (*others, book.only(book.ids[::-1]), None):
        assert book != other
    assert book.__eq__(book.words) is NotImplemented


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([1.0, 2.0], "two-dimensional"),
        (np.empty((0, 3)), "at least one word"),
        (None, "words must be numeric"),
        ([[1.0], [1.0, 2.0]], "equal length"),
        ([["a"]], "must be numeric"),
        ([[np.nan]], "finite"),
        ([[1e39]], "finite"),
    ],
)
def test_words_that_are_none_are_refused(words, message):
    with pytest.raises(DataError, match=message):
        Codebook(words)


@pytest.mark.parametrize("ids", [[1], [1, 1], [-1, 0], [0.0, 1.0], ["a", "b"], [[0, 1]]])
def test_ids_are_distinct_integers_one_per_word(ids):
    with pytest.raises(DataError, match="ids must be"):
        Codebook([[0.0], [1.0]], ids)
    with pytest.raises(ParameterError, match=r"metric must be one of .'euclidean'.; got 'cosine'"):
        Codebook([[0.0]], metric="cosine")


def test_words_take_the_units_of_the_bags(book):
    uint8 = Bags(np.zeros((1, 2), np.uint8), scale=512, description=ABOUT)
    unit = Bags(np.zeros((1, 2)), scale=1, description=ABOUT)
    np.testing.assert_array_equal(book.words_for(uint8), book.words)
    np.testing.assert_array_equal(book.words_for(unit), book.words / 512)
    assert book.words_for(unit).dtype == np.float32
    with pytest.raises(MismatchError, match=r'sizes.*the bags hold \{"name": "other"\}'):
        book.words_for(Bags(np.zeros((1, 2)), description={"name": "other"}))


@pytest.mark.parametrize("description", [None, {"sizes": (4, 8), "name": "test"}])
def test_bags_that_are_alike_or_unknown_are_taken(book, description):
    bags = Bags(np.zeros((1, 2)), scale=512, description=description)
    np.testing.assert_array_equal(book.words_for(bags), book.words)
    unknown = Codebook(book.words, scale=512)
    np.testing.assert_array_equal(unknown.words_for(bags), book.words)


def test_the_digest_names_what_histograms_depend_on():
    book = Codebook(np.eye(3))
    others = [Codebook(2 * np.eye(3)), Codebook(np.eye(3), scale=2.0), book.only([1, 0, 2])]
    assert len({other.digest for other in [book, *others]}) == 4
    assert Codebook(np.eye(3), [4, 5, 9], provenance={"a": 1}, trained_on=[4]).digest == book.digest


def test_names_provenance_and_what_words_were_learned_from(book):
    assert book.positions([0, 9, 30]).tolist() == [4, 0, 2]
    assert book.names().tolist()[:2] == ["word0009", "word0002"]
    grown = book.with_provenance(seed=2, store="abc")
    assert grown.provenance == {"seed": 2, "split": {"train": 5}, "store": "abc"}
    assert book.provenance["seed"] == 1
    bags = Bags(np.zeros((1, 2)), digests=[5], description={"name": "other"})
    assert book.learned_from(bags).trained_on.tolist() == [3, 5, 7, 2**64 - 1]
    assert book.learned_from(bags).description == ABOUT
    assert book.learned_from(Bags(np.zeros((1, 2)))).trained_on is None
    assert Codebook([[0.0, 1.0]]).with_description(ABOUT).description == ABOUT
