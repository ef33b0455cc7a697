from __future__ import annotations

import json

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.comparison import Run
from bowsaw.images.split import split_by_class
from reproduction.claims import verdicts
from reproduction.probes import (
    PROBES,
    SHARPNESS,
    ProbedSplit,
    brute_force,
    cost_shares,
    iterations,
    measure_probes,
    transfer_error,
)

CLASSES = ("bow", "saw", "tree")


def probed_split(bags, y, n_words, codebook, train):
    """The first split of a set with its codebooks."""
    collection = bs.Collection("planted", bags, y, CLASSES, codebook_images=codebook, train=train)
    split = split_by_class(y, CLASSES, codebook=codebook, train=train, seed=0, index=0)
    rows = split.codebook if codebook else split.train
    books = {
        n: bs.KMeansCodebook(n, random_state=0, max_iter=5).fit(bags[rows]).codebook_
        for n in n_words
    }
    return ProbedSplit(collection, split, books, n_jobs=1)


def planted(codebook=6, n_words=(24, 40)):
    """Bags of 30 to 40 descriptors in 8 dimensions; a fifth of them are of their class alone."""
    rng = np.random.default_rng(0)
    shared, own = rng.normal(size=(20, 8)), rng.normal(size=(3, 4, 8))
    y = np.repeat(np.arange(3), 18)
    arrays = []
    for label in y:
        n = int(rng.integers(30, 41))
        centres = shared[rng.integers(20, size=n)]
        centres[: n // 5] = own[label, rng.integers(4, size=n // 5)]
        arrays.append((centres + 0.3 * rng.normal(size=(n, 8))).astype(np.float32))
    bags = bs.Bags.from_list(arrays, digests=range(len(arrays)))
    return probed_split(bags, y, n_words, codebook, 6)


@pytest.fixture(scope="module")
def probed():
    return planted()


@pytest.fixture(scope="module")
def searched(probed):
    return iterations(probed, size=8, steps=(0, 4, 9), soft_steps=(0, 5), n_starts=2)


@pytest.fixture(scope="module")
def moved(probed):
    return transfer_error(probed, kept=(20, 6), counts=(10, 20), n_images=9)


def test_each_probe_is_one_line_and_is_measured_once(probed, tmp_path, monkeypatch):
    bs.evaluate(probed.collection, tmp_path, n_words=24, n_splits=1, n_jobs=1)
    for name in PROBES:
        monkeypatch.setitem(PROBES, name, lambda probed: {"rows": [probed.smallest.n_words]})
    for _ in range(2):
        measure_probes(tmp_path, [probed])
    lines = bs.read_run(tmp_path).probes
    assert [line["probe"] for line in lines] == list(PROBES)
    assert {(line["set"], line["split"], *line["rows"]) for line in lines} == {("planted", 0, 24)}
    assert all(line["seconds"] >= 0 for line in lines)


def test_verdicts_read_what_probes_write(probed, searched, moved):
    found = {
        "iterations": searched | {"published_steps": {"hard": 4, "soft": 5}},
        "transfer-error": moved,
        "cost-shares": cost_shares(probed, small=6, n_timed=4),
        "brute-force": brute_force(probed),
    }
    assert list(found) == list(PROBES)
    lines = [{"probe": name, "set": "planted", **line} for name, line in found.items()]
    judged = verdicts(Run({}, [], json.loads(json.dumps(lines, allow_nan=False))))
    assert [v.answer for v in judged[:6]] == ["not measured"] * 6
    for verdict in judged[6:]:
        assert verdict.answer in ("supported", "contradicted", "not shown")
        assert {len(row) for row in verdict.rows} == {len(verdict.header)}


def test_iterations_have_the_published_numbers_of_steps(probed, searched):
    for coding, n_steps in searched["published_steps"].items():
        search = bs.Annealing.paper(probed.smallest, 8, coding=coding, random_state=0, n_jobs=1)
        assert search.fit(probed.bags("train"), probed.y("train")).n_steps_ == n_steps - 1
    assert (searched["full_words"], searched["size"]) == (24, 8)
    steps = [(row["coding"], row["n_steps"]) for row in searched["rows"]]
    assert steps == [("hard", 0), ("hard", 4), ("hard", 9), ("soft", 0), ("soft", 5)]
    # Claim 2: the inferred histograms are the re-encoded ones. Eq. 6 is an approximation.
    for row in searched["rows"]:
        same = row["score"] == pytest.approx(row["recoded_score"], abs=1e-4)
        assert same == (row["coding"] == "soft")


def test_a_shorter_search_is_the_beginning_of_a_longer_one(probed, searched):
    for seed in range(2):
        search = bs.Annealing.paper(probed.smallest, 8, random_state=seed, n_jobs=1)
        search.set_params(n_steps=9).fit(probed.bags("train"), probed.y("train"))
        scores = [row["score"][seed] for row in searched["rows"][:3]]
        assert scores == pytest.approx([search.selection_.scores[n] for n in (0, 3, 8)], rel=1e-12)


@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_accuracy_is_that_of_the_protocol(probed, searched, coding, tmp_path):
    row = next(r for r in searched["rows"] if r["coding"] == coding and r["n_steps"] > 3)
    search = bs.Annealing.paper(probed.smallest, 8, coding=coding, random_state=0, n_jobs=1)
    search.set_params(n_steps=row["n_steps"]).fit(probed.bags("train"), probed.y("train"))
    options = {"coding": coding, "sharpness": SHARPNESS, "n_splits": 1, "n_jobs": 1}
    found = bs.evaluate(probed.collection, tmp_path, codebook=search.codebook_, **options)
    (cell,) = found.cells
    assert row["accuracy"][0] == cell["results"]["sqrt"]["accuracy"]


def test_without_codebook_images_the_training_images_serve():
    alone = planted(codebook=0, n_words=(24,))
    found = iterations(alone, size=6, steps=(0,), soft_steps=(0,), n_starts=1)
    assert 0 <= found["rows"][0]["accuracy"][0] <= 1
    found = transfer_error(alone, kept=(6,), counts=(10,))
    assert {row["way"].split(",")[0] for row in found["rows"]} == {"uniform"}


def test_errors_and_limits_are_those_of_a_state(probed, moved):
    chosen = np.linspace(0, len(probed.split.train) - 1, 9).astype(int)
    bags, book = probed.bags("train")[chosen], probed.smallest
    for row in moved["rows"]:
        if row["way"] == "empirical" or row["n_descriptors"] <= 20:
            continue
        drawn = np.random.default_rng([0, row["n_kept"]]).choice(24, row["n_kept"], False)
        policy = row["way"].removeprefix("uniform, ")
        state = bs.whatif(book, bags, transfer="uniform", policy=policy, n_jobs=1)
        pruned = np.setdiff1d(np.arange(24), drawn)
        moved_mass = state.histograms[:, pruned].sum(axis=1).mean()
        assert row["moved"] == pytest.approx(moved_mass, abs=1e-6)
        state.reset(book.ids[np.sort(drawn)])
        errors = np.abs(state.histograms - state.recode(bags)).sum(axis=1)
        assert row["error"] == pytest.approx(errors.mean(), abs=1e-6)
        limits = np.sqrt(state.variance()).sum(axis=1)
        assert row["limit"] == pytest.approx(limits.mean(), abs=1e-6)


def test_every_transfer_is_measured_at_every_count(probed, moved):
    places = {(row["way"], row["n_kept"], row["n_descriptors"]) for row in moved["rows"]}
    assert len(places) == len(moved["rows"]) == 4 * 2 * 3
    counts = sorted({row["n_descriptors"] for row in moved["rows"]})
    chosen = np.linspace(0, len(probed.split.train) - 1, 9).astype(int)
    assert counts == [10.0, 20.0, pytest.approx(probed.bags("train").counts[chosen].mean())]
    assert all(0 <= row["error"] <= 2 * row["moved"] + 1e-9 for row in moved["rows"])
    # Counts that few images reach are left out.
    found = transfer_error(probed, kept=(6,), counts=(10, 39, 400))
    train = probed.bags("train").counts
    assert 30 < np.median(train) < 39
    assert sorted({row["n_descriptors"] for row in found["rows"]}) == [10.0, train.mean()]


def test_cost_shares_have_a_row_per_codebook_and_coding(probed):
    found = cost_shares(probed, small=6, n_timed=4)
    places = [(row["n_words"], row["coding"], row["full"]) for row in found["rows"]]
    assert places == [(n, coding, n > 6) for n in (6, 24, 40) for coding in ("hard", "soft")]
    for row in found["rows"]:
        assert row["describe_ms"] is None
        assert min(row["code_ms"], row["pool_ms"], row["classify_ms"]) >= 0


def test_dense_sift_is_timed_on_a_generated_image():
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (40, 48), dtype=np.uint8) for _ in range(9)]
    bags = bs.DenseSift(n_jobs=1).transform(images)
    noise = probed_split(bags, np.repeat(np.arange(3), 3), (12,), codebook=1, train=1)
    found = cost_shares(noise, small=4, n_timed=2)
    assert found["n_descriptors"] == 20
    assert all(row["describe_ms"] > 0 for row in found["rows"])


def test_brute_force_reports_the_bytes_of_each_side(probed):
    found = brute_force(probed, kept=(500, 5), n_moves=2)
    assert found["corpus_bytes"] == probed.bags("train").n_descriptors * 8 * 4
    ways = [(row["coding"], row["transfer"], row["n_kept"]) for row in found["rows"]]
    # At most half of the words can be kept and still be swapped with as many others.
    hard = [("hard", transfer, n) for n in (12, 5) for transfer in ("uniform", "exact")]
    assert ways == [*hard, ("soft", "exact", 12)]
    for row in found["rows"]:
        assert row["refusal"] is None
        assert min(row["move_seconds"], row["recode_seconds"], row["n_bytes"]) > 0
        assert row["words_bytes"] == row["n_kept"] * 8 * 4
        assert (row["error"] < 1e-6) == (row["transfer"] == "exact")
