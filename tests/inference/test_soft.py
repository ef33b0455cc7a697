import errno
import gc
import os
import shutil
import tracemalloc
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import soft_state as oracle

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import ParameterError, SpaceError
from bowsaw.inference import soft
from bowsaw.inference._soft_kernel import SEGMENT, add_columns, pack, weight
from bowsaw.inference.soft import SoftState

STORAGES = ("float64", "uint16")


def unit(random, n_rows, n_dims=8):
    rows = np.abs(random.normal(size=(n_rows, n_dims)))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def corpus(seed, counts=(7, 0, 30, 1), n_words=24, n_dims=8):
    """Bags of bytes at scale 512, and words that are not among them."""
    random = np.random.default_rng(seed)
    values = (unit(random, sum(counts), n_dims) * 511).astype(np.uint8)
    bags = Bags(values, np.concatenate(([0], np.cumsum(counts))), scale=512)
    ids = random.permutation(n_words) + 100
    return bags, Codebook(unit(random, n_words, n_dims) * 512, ids, scale=512)


def assert_within_bound(state, bags):
    errors, bound = oracle.l1_errors(state, bags), state.bound()
    assert (errors <= bound).all()
    filled = bags.counts > 0
    sums = state.histograms.sum(axis=1)
    np.testing.assert_allclose(sums[filled], 1, atol=1e-5)
    assert not sums[~filled].any()
    if state.storage == "float64":
        np.testing.assert_allclose(errors, 0, atol=1e-12)


@given(st.integers(0, 2**32 - 1), st.sampled_from(STORAGES), st.floats(1e-3, 1e3), st.data())
@settings(max_examples=60)
def test_renormalised_columns_are_recoding(seed, storage, sharpness, data):
    bags, book = corpus(seed, counts=(3, 0, 9), n_words=12)
    state = SoftState(book, bags, sharpness=sharpness, storage=storage)
    for n_kept in data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=3)):
        state.reset(np.random.default_rng(seed).permutation(book.ids)[:n_kept])
        assert_within_bound(state, bags)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_code_survives_the_loss_of_every_near_word(storage):
    # Words near 0 and words near 1 in every dimension: at sharpness 1000 the far ones weigh
    # exp(−8000) relative to the near ones, which no float64 holds.
    random = np.random.default_rng(2)
    rows = (random.random((40, 8)) * 0.1).astype(np.float32)
    near = (random.random((10, 8)) * 0.1).astype(np.float32)
    far = near[:5] + np.float32(0.9)
    bags = Bags(rows, [0, 15, 40])
    book = Codebook(np.concatenate([near, far]))
    state = SoftState(book, bags, sharpness=1000, storage=storage)
    before = state.histograms.copy()
    state.swap(remove=np.arange(10))
    assert_within_bound(state, bags)
    state.swap(add=[0]).swap(remove=[11, 12, 13])
    assert_within_bound(state, bags)
    state.swap(remove=[10, 14], add=np.arange(1, 10)).swap(add=np.arange(10, 15))
    assert_within_bound(state, bags)
    if storage != "float64":
        order = np.argsort(state.kept)
        np.testing.assert_array_equal(state.histograms[:, order], before)


@pytest.mark.parametrize("storage", STORAGES)
def test_only_some_descriptors_lose_their_near_words(storage, monkeypatch):
    # Two heaps of descriptors in every bag, and the words of one heap go. Small blocks, so that
    # bags are cut into several and several share one.
    monkeypatch.setattr(soft, "RECODE_ROWS", 16)
    random = np.random.default_rng(3)
    heap = random.integers(0, 2, 200)[:, None]
    rows = (random.random((200, 8)) * 0.2 + heap).astype(np.float32)
    words = (random.random((12, 8)) * 0.2 + (np.arange(12) < 6)[:, None]).astype(np.float32)
    bags = Bags(rows, [0, 3, 3, 5, 100, 101, 140, 200])
    how = {"sharpness": 200, "storage": storage}
    states = [SoftState(Codebook(words), bags, n_jobs=n, **how) for n in (1, 3)]
    for state in states:
        state.swap(remove=np.arange(6))
    assert_within_bound(states[0], bags)
    n_lost = [heap[a:b].sum() for a, b in pairwise(bags.offsets)]
    np.testing.assert_array_equal(states[0]._n_recoded, n_lost)
    np.testing.assert_array_equal(states[0].histograms, states[1].histograms)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("sharpness", [1e-300, 1e6, 1e300])
def test_any_sharpness_gives_codes_that_sum_to_one(storage, sharpness):
    bags, book = corpus(11)
    state = SoftState(book, bags, sharpness=sharpness, storage=storage)
    oracle.wander(state, np.random.default_rng(11), 30)
    filled = bags.counts > 0
    assert (state.histograms >= 0).all()
    np.testing.assert_allclose(state.histograms[filled].sum(axis=1), 1, atol=1e-6)
    assert (oracle.l1_errors(state, bags) <= state.bound()).all()
    if sharpness < 1e-8:
        np.testing.assert_allclose(state.histograms[filled], 1 / state.n_kept, rtol=1e-3)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("n_rows", [SEGMENT, SEGMENT + 1, 3 * SEGMENT + 5])
def test_long_bags_are_summed_in_segments(storage, n_rows):
    random = np.random.default_rng(14)
    rows = unit(random, n_rows + 3, 3)
    bags, book = Bags(rows, [0, 2, n_rows + 3]), Codebook(unit(random, 5, 3))
    state = SoftState(book, bags, storage=storage).reset([4, 0, 2])
    squared = ((rows[:, None].astype(np.float64) - book.words[[4, 0, 2]]) ** 2).sum(axis=2)
    weights = np.exp(-40 * squared)
    codes = weights / weights.sum(axis=1, keepdims=True)
    expected = [codes[:2].mean(axis=0), codes[2:].mean(axis=0)]
    errors = np.abs(state.histograms - expected).sum(axis=1)
    assert (errors <= state.bound()).all()


def unpacked(codes):
    """Read codes back through the kernel that adds them up."""
    high, low = np.zeros(len(codes)), np.zeros(len(codes))
    add_columns(codes[None], np.array([0]), 1.0, 0, high, low)
    assert not low.any()
    return high


def test_packed_weights_are_the_nearest_of_their_kind():
    # The code is 1024 steps an octave, from 2⁻⁶³ on.
    codes = np.arange(63 * 1024 + 1, dtype=np.uint16)
    octave, step = np.divmod(codes.astype(np.int64), 1024)
    values = (1 + step / 1024) * 2.0 ** (octave - 63)
    np.testing.assert_array_equal(unpacked(codes), values)
    again = np.empty_like(codes)[None]
    pack(values.astype(np.float32)[None], 0, again)
    np.testing.assert_array_equal(again[0], codes)
    random = np.random.default_rng(16)
    weights = np.exp2(-63 * random.random(5000)).astype(np.float32)
    packed = np.empty((1, 5003), np.uint16)
    pack(weights[None], 3, packed)
    distance = np.abs(values[:, None] - weights[None, :300]).min(axis=0)
    np.testing.assert_array_equal(np.abs(unpacked(packed[0, 3:303]) - weights[:300]), distance)
    np.testing.assert_allclose(unpacked(packed[0, 3:]), weights, rtol=2.0**-11)
    pack(np.array([[0, 2.0**-126, 2.0**-64]], np.float32), 0, packed)
    assert packed[0, :3].tolist() == [0, 0, 0]


def test_totals_in_16_bits_are_exact():
    # Multiples of 2⁻⁷³ are whole numbers of Python after a shift.
    random = np.random.default_rng(17)
    codes = random.integers(0, 63 * 1024 + 1, (200, 50)).astype(np.uint16)
    high, low = np.zeros(50), np.zeros(50)
    words = random.permutation(200)
    add_columns(codes, words, 1.0, 0, high, low)
    add_columns(codes, words[:150], -1.0, 0, high, low)
    weights = np.array([unpacked(codes[k]) for k in words[150:]])
    for i in range(50):
        exact = sum(int(w * 2.0**73) for w in weights[:, i])
        assert int(high[i] * 2.0**73) + int(low[i] * 2.0**73) == exact


def test_errors_cancel_far_below_the_bound():
    # About 2⁻¹¹/√3 an entry, and independent: the mean over a bag of n descriptors and codes over
    # p words is off by √(n_words / (n p)) times that, here below a tenth of the bound.
    random = np.random.default_rng(18)
    bags, book = Bags(unit(random, 4000, 16), [0, 2000, 4000]), Codebook(unit(random, 60, 16))
    state = SoftState(book, bags, storage="uint16").reset(np.arange(30))
    exact = SoftState(book, bags, storage="float64").reset(np.arange(30))
    errors = np.abs(state.histograms - exact.histograms).sum(axis=1)
    assert (errors < 4e-5).all()
    assert (state.bound() > 2.0**-11).all()
    assert (state.bound() < 1e-3).all()


@given(st.integers(0, 2**32 - 1), st.floats(1, 3e3), st.integers(1, 39))
@settings(max_examples=40)
def test_the_bound_is_a_bound_for_every_descriptor(seed, sharpness, n_kept):
    # One descriptor a bag: nothing can cancel.
    bags, book = corpus(seed, counts=(1,) * 30, n_words=40)
    state = SoftState(book, bags, sharpness=sharpness, storage="uint16")
    state.reset(np.random.default_rng(seed).permutation(book.ids)[:n_kept])
    assert (oracle.l1_errors(state, bags) <= state.bound()).all()


def test_totals_in_float64_are_refreshed_now_and_then(monkeypatch):
    bags, book = corpus(23)
    monkeypatch.setattr(soft, "REFRESH", 7)
    state = SoftState(book, bags, storage="float64")
    for _ in range(20):
        oracle.wander(state, np.random.default_rng(23), 1)
        assert state._n_added <= 7
        assert_within_bound(state, bags)


def test_weights_above_max_bytes_lie_on_disk_in_a_file_without_a_name(tmp_path):
    bags, book = corpus(26)
    n_bytes = 2 * bags.n_descriptors * book.n_words
    in_memory = SoftState(book, bags, max_bytes=n_bytes, folder=tmp_path)
    assert (in_memory.storage, in_memory.on_disk) == ("uint16", False)
    on_disk = SoftState(book, bags, max_bytes=n_bytes - 1, folder=tmp_path)
    assert on_disk.on_disk
    np.testing.assert_array_equal(on_disk.histograms, in_memory.histograms)
    assert on_disk._codes.nbytes == n_bytes
    assert on_disk.n_bytes <= in_memory.n_bytes - n_bytes
    other = on_disk.copy()
    assert other._codes is on_disk._codes
    del on_disk
    gc.collect()
    other.swap(remove=book.ids[:3])
    np.testing.assert_array_equal(other.histograms, in_memory.swap(remove=book.ids[:3]).histograms)
    # The file has no name, so that nothing is left whatever ends the process.
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_too_small_is_refused_and_left_clean(tmp_path, monkeypatch):
    bags, book = corpus(27)
    need = 2 * bags.n_descriptors * book.n_words

    def full(*arguments):
        raise OSError(errno.ENOSPC, "no space left")

    small = rf"needs {need} bytes on disk.*has {need - 1} free"
    for where, name, function, problem in (
        (os, "posix_fallocate", full, "disk is full"),
        (shutil, "disk_usage", lambda path: SimpleNamespace(free=need - 1), small),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, function, raising=False)
            with pytest.raises(SpaceError, match=problem):
                SoftState(book, bags, max_bytes=0, folder=tmp_path)
    with pytest.raises(ParameterError, match="folder must be an existing folder"):
        SoftState(book, bags, max_bytes=0, folder=tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []
    # Systems that cannot reserve space still write.
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    assert_within_bound(SoftState(book, bags, max_bytes=0, folder=tmp_path), bags)


def test_the_build_takes_two_bytes_an_entry_and_a_tenth():
    random = np.random.default_rng(30)
    bags = Bags(random.integers(0, 100, (40_000, 8)).astype(np.uint8), scale=512)
    book = Codebook(random.integers(0, 100, (500, 8)), scale=512)
    tracemalloc.start()
    try:
        state = SoftState(book, bags, storage="uint16", n_jobs=2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    n_entries = bags.n_descriptors * book.n_words
    assert 2 * n_entries < state.n_bytes <= peak <= 2.2 * n_entries


def test_a_packed_weight_means_the_same_in_plain_python_and_in_a_kernel():
    codes = np.arange(2**16, dtype=np.uint16)
    expected = np.array([weight(code) for code in codes], dtype=np.float64)
    np.testing.assert_array_equal(unpacked(codes), expected)
    assert (expected[0], weight(0.25)) == (2.0**-63, 0.25)
    assert (np.diff(expected) > 0).all()
