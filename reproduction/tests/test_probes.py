from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from bowsaw.bags import Bags
from bowsaw.clustering.kmeans import KMeansCodebook
from bowsaw.comparison import Collection, evaluate
from bowsaw.comparison.records import Run
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.errors import ParameterError
from bowsaw.images.split import Split, split_by_class
from bowsaw.inference.whatif import whatif
from bowsaw.random_streams import stream
from bowsaw.selection.annealing import Annealing
from reproduction.costs import brute_force, cost_shares
from reproduction.probes import (
    PROBES,
    SHARPNESS,
    iterations,
    probe_line,
    transfer_error,
)
from reproduction.verdicts import verdicts

CLASSES = ("bow", "saw", "tree")
WORDS = (24, 40)
STEPS: dict[str, Any] = {"size": 8, "steps": (0, 4, 9), "soft_steps": (0, 5), "n_starts": 2}
COUNTS: dict[str, Any] = {"kept": (20, 6), "counts": (10, 20), "n_images": 9}


@dataclass(frozen=True)
class Bench:
    name: str
    bags: Bags
    y: np.ndarray
    classes: tuple[str, ...]
    split: Split
    n_jobs: int | None = 1

    def book(self, n_words):
        return trained(self, n_words)


BOOKS: dict[tuple[str, int], Any] = {}


def trained(bench, n_words):
    if (bench.name, n_words) not in BOOKS:
        rows = bench.split.codebook if len(bench.split.codebook) else bench.split.train
        fitted = KMeansCodebook(n_words, random_state=0, max_iter=5).fit(bench.bags[rows])
        BOOKS[bench.name, n_words] = fitted.codebook_
    return BOOKS[bench.name, n_words]


def planted(name="planted", codebook=6, n_each=18):
    """Bags of 30 to 40 descriptors in 8 dimensions; a fifth of them are of their class alone."""
    rng = np.random.default_rng(0)
    shared, own = rng.normal(size=(20, 8)), rng.normal(size=(3, 4, 8))
    y = np.repeat(np.arange(3), n_each)
    arrays = []
    for label in y:
        n = int(rng.integers(30, 41))
        centres = shared[rng.integers(20, size=n)]
        centres[: n // 5] = own[label, rng.integers(4, size=n // 5)]
        arrays.append((centres + 0.3 * rng.normal(size=(n, 8))).astype(np.float32))
    split = split_by_class(y, CLASSES, codebook=codebook, train=6, seed=0, index=0)
    bags = Bags.from_list(arrays, digests=range(len(arrays)))
    return Bench(name, bags, y, CLASSES, split)


@pytest.fixture(scope="module")
def bench():
    return planted()


@pytest.fixture(scope="module")
def searched(bench):
    return iterations(bench, WORDS, **STEPS)


@pytest.fixture(scope="module")
def moved(bench):
    return transfer_error(bench, WORDS, **COUNTS)


# -- a line --------------------------------------------------------------------------------------


def test_each_claim_that_cells_do_not_answer_has_a_probe():
    assert [name for name, _ in PROBES] == [
        "iterations",
        "transfer-error",
        "cost-shares",
        "brute-force",
    ]


def test_a_probe_is_one_line_of_plain_json(bench):
    line = probe_line("brute-force", bench, WORDS)
    assert (line["probe"], line["set"], line["split"]) == ("brute-force", "planted", 0)
    assert line["seconds"] >= 0
    assert json.loads(json.dumps(line, allow_nan=False)) == line


def test_an_unknown_probe_is_refused(bench):
    with pytest.raises(ParameterError, match="iterations, transfer-error"):
        probe_line("luck", bench, WORDS)


def test_verdicts_read_what_probes_write(bench, searched, moved):
    found = {
        "iterations": searched | {"published_steps": {"hard": 4, "soft": 5}},
        "transfer-error": moved,
        "cost-shares": cost_shares(bench, WORDS, small=6, n_timed=4),
        "brute-force": brute_force(bench, WORDS),
    }
    lines = [{"probe": name, "set": bench.name, **line} for name, line in found.items()]
    judged = verdicts(Run({}, [], json.loads(json.dumps(lines))))
    assert [v.answer for v in judged[:6]] == ["not measured"] * 6
    for verdict in judged[6:]:
        assert verdict.answer in ("yes", "no", "partly")
        assert {len(row) for row in verdict.rows} == {len(verdict.header)}


# -- iterations ----------------------------------------------------------------------------------


def test_the_published_numbers_of_steps_are_told(searched):
    assert searched["published_steps"] == {"hard": 100, "soft": 500}
    assert (searched["full_words"], searched["size"]) == (24, 8)
    steps = [(row["coding"], row["n_steps"]) for row in searched["rows"]]
    assert steps == [("hard", 0), ("hard", 4), ("hard", 9), ("soft", 0), ("soft", 5)]


def test_a_shorter_search_is_the_beginning_of_a_longer_one(bench, searched):
    train = bench.bags[bench.split.train]
    for seed in range(2):
        saw = Annealing.paper(bench.book(24), 8, random_state=seed, n_jobs=1)
        saw.set_params(n_steps=9).fit(train, bench.y[bench.split.train])
        scores = [row["score"][seed] for row in searched["rows"][:3]]
        assert scores == pytest.approx([saw.selection_.scores[n] for n in (0, 4, 9)], rel=1e-12)


def test_soft_scores_are_those_of_coding_anew(searched):
    # Claim 2: the inferred histograms are the re-coded ones. Eq. 6 is an approximation.
    for row in searched["rows"]:
        same = row["score"] == pytest.approx(row["recoded_score"], abs=1e-4)
        assert same == (row["coding"] == "soft")


@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_accuracy_is_that_of_the_protocol(bench, searched, coding):
    row = next(r for r in searched["rows"] if r["coding"] == coding and r["n_steps"] > 3)
    saw = Annealing.paper(bench.book(24), 8, coding=coding, random_state=0, n_jobs=1)
    saw.set_params(n_steps=row["n_steps"])
    saw.fit(bench.bags[bench.split.train], bench.y[bench.split.train])
    found = evaluate(
        Collection("planted", bench.bags, bench.y, CLASSES, codebook_images=6, train=6),
        codebook=saw.codebook_,
        n_splits=1,
        coding=coding,
        sharpness=SHARPNESS,
        n_jobs=1,
    )
    assert row["accuracy"][0] == found.accuracies("sqrt")[0]


def test_without_codebook_images_c_is_chosen_inside_the_training_images():
    alone = planted("alone", codebook=0)
    found = iterations(alone, (24,), size=6, steps=(0,), soft_steps=(0,), n_starts=1)
    assert 0 <= found["rows"][0]["accuracy"][0] <= 1


# -- the error of the transfer -------------------------------------------------------------------


def test_errors_and_limits_are_those_of_a_state(bench, moved):
    chosen = np.linspace(0, len(bench.split.train) - 1, 9).astype(int)
    bags, book = bench.bags[bench.split.train[chosen]], bench.book(24)
    for row in moved["rows"]:
        if row["way"] == "empirical" or row["n_descriptors"] <= 20:
            continue
        drawn = stream(0, "probe", "kept", row["n_kept"]).choice(24, row["n_kept"], False)
        policy = row["way"].removeprefix("uniform, ")
        state = whatif(book, bags, transfer="uniform", policy=policy, n_jobs=1)
        state.reset(book.ids[np.sort(drawn)])
        errors = np.abs(state.histograms - state.recode(bags)).sum(axis=1)
        assert row["error"] == pytest.approx(errors.mean(), abs=1e-6)
        limits = np.sqrt(state.variance()).sum(axis=1)
        assert row["limit"] == pytest.approx(limits.mean(), abs=1e-6)
        full = whatif(book, bags, transfer="uniform", n_jobs=1).histograms
        pruned = np.setdiff1d(np.arange(24), drawn)
        assert row["moved"] == pytest.approx(full[:, pruned].sum(axis=1).mean(), abs=1e-6)


def test_every_way_is_measured_at_every_count(bench, moved):
    places = {(row["way"], row["n_kept"], row["n_descriptors"]) for row in moved["rows"]}
    assert len(places) == len(moved["rows"]) == 4 * 2 * 3
    counts = sorted({row["n_descriptors"] for row in moved["rows"]})
    chosen = np.linspace(0, len(bench.split.train) - 1, 9).astype(int)
    everything = bench.bags.counts[bench.split.train[chosen]].mean()
    assert counts == [10.0, 20.0, pytest.approx(everything)]
    assert all(0 <= row["error"] <= 2 * row["moved"] + 1e-9 for row in moved["rows"])


def test_a_transfer_learns_from_the_codebook_images_where_there_are_any():
    found = transfer_error(planted("alone", codebook=0), (24,), kept=(6,), counts=(10,))
    assert {row["way"].split(",")[0] for row in found["rows"]} == {"uniform"}


def test_counts_that_few_images_reach_are_left_out(bench):
    found = transfer_error(bench, WORDS, kept=(6,), counts=(10, 39, 400))
    train = bench.bags.counts[bench.split.train]
    assert 30 < np.median(train) < 39
    assert sorted({row["n_descriptors"] for row in found["rows"]}) == [10.0, train.mean()]


# -- costs ---------------------------------------------------------------------------------------


def test_cost_shares_have_a_row_for_each_codebook_and_coding(bench):
    found = cost_shares(bench, WORDS, small=6, n_timed=4)
    places = [(row["n_words"], row["coding"], row["full"]) for row in found["rows"]]
    assert places == [(n, coding, n in WORDS) for n in (6, 24, 40) for coding in ("hard", "soft")]
    for row in found["rows"]:
        assert row["describe_ms"] is None
        assert min(row["code_ms"], row["pool_ms"], row["classify_ms"]) >= 0


def test_dense_sift_is_timed_on_a_picture_of_its_own():
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 256, (40, 48), dtype=np.uint8) for _ in range(9)]
    bags = DenseSift(n_jobs=1).transform(pictures)
    y = np.repeat(np.arange(3), 3)
    split = split_by_class(y, CLASSES, codebook=1, train=1, seed=0, index=0)
    found = cost_shares(Bench("noise", bags, y, CLASSES, split), (12,), small=4, n_timed=2)
    assert found["n_descriptors"] == 20
    assert all(row["describe_ms"] > 0 for row in found["rows"])


def test_brute_force_knows_what_each_side_holds(bench):
    found = brute_force(bench, WORDS, kept=(500, 5), n_moves=2)
    train = bench.bags[bench.split.train]
    assert found["corpus_bytes"] == train.n_descriptors * 8 * 4
    ways = [(row["coding"], row["transfer"], row["n_kept"]) for row in found["rows"]]
    # At most half of the words can be kept and still be swapped with as many others.
    assert ways == [
        ("hard", "uniform", 12),
        ("hard", "exact", 12),
        ("hard", "uniform", 5),
        ("hard", "exact", 5),
        ("soft", "exact", 12),
    ]
    for row in found["rows"]:
        assert row["refusal"] is None
        assert min(row["move_seconds"], row["recode_seconds"], row["n_bytes"]) > 0
        assert row["words_bytes"] == row["n_kept"] * 8 * 4
        assert (row["error"] < 1e-6) == (row["transfer"] == "exact")
