"""The planes of accuracy, bytes and time: coders against slow twins, and the Pareto fronts."""

import json
import xml.etree.ElementTree as ElementTree

import faiss
import numpy as np
import pytest
from benchmarks.alternatives import (
    ALTERNATIVES,
    BRANCHES,
    LEVELS,
    Part,
    Words,
    _descend,
    faiss_index,
    main,
    tree,
)
from benchmarks.figures import draw_alternatives
from benchmarks.planes import planes

import bowsaw as bs


@pytest.fixture(scope="module")
def bags():
    rng = np.random.default_rng(0)
    return bs.Bags.from_list(
        [rng.integers(0, 256, (70, 8)).astype(np.uint8) for _ in range(12)], scale=512
    )


def test_an_index_codes_as_the_words_do(bags):
    book = bs.KMeansCodebook(30, random_state=0).fit(bags).codebook_
    index = faiss_index(faiss.IndexFlatL2(8), np.array(book.words))
    np.testing.assert_allclose(index.code(bags), Words(book).code(bags), atol=1e-6)
    assert index.n_bytes >= book.words.nbytes == Words(book).n_bytes


def test_eight_bits_round_words_and_projection(bags):
    book = bs.KMeansCodebook(30, n_components=3, random_state=0).fit(bags).codebook_
    small = Words(book, 8)
    assert small.n_bytes == 30 * 3 + 8 * 3 + 8
    assert len(np.unique(small.book.words)) <= 256
    assert np.abs(small.book.words - book.words).max() <= np.ptp(book.words) / 500
    assert np.abs(small.code(bags) - Words(book).code(bags)).sum(axis=1).mean() < 0.2


def test_a_tree_descends_to_the_nearest_child(bags):
    values = bags.values.astype(np.float32)
    made = tree(values, 0)
    assert made.n_words == BRANCHES**LEVELS
    rng = np.random.default_rng(0)
    sizes = np.cumsum([0, *(BRANCHES ** (level + 1) for level in range(LEVELS))])
    nodes = rng.normal(size=(sizes[-1], 3)).astype(np.float32)
    rows = rng.normal(size=(20, 3)).astype(np.float32)
    for row, leaf in zip(rows, _descend(rows, nodes), strict=True):
        at = 0
        for first in sizes[:-1]:
            children = nodes[first + at * BRANCHES :][:BRANCHES]
            at = at * BRANCHES + int(((children - row) ** 2).sum(axis=1).argmin())
        assert leaf == at
    np.testing.assert_allclose(made.code(bags).sum(axis=1), 1, atol=1e-5)


@pytest.mark.slow
def test_every_alternative_is_measured(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 20)
    values = [rng.integers(60 * k, 60 * k + 190, (150, 20)).astype(np.uint8) for k in y]
    place = np.arange(40) % 20
    rows = tuple(np.flatnonzero((place >= a) & (place < b)) for a, b in ((0, 7), (7, 14), (14, 20)))
    part = Part("made", bs.Bags.from_list(values, scale=512), y, rows, 0, tmp_path)
    monkeypatch.setattr("benchmarks.alternatives.N_WORDS", 300)
    book = part.book
    monkeypatch.setattr(part, "book", lambda n=300, dims=None: book(min(n, 300), dims))
    for name in (
        "vocabulary tree",
        "HNSW",
        "IVF",
        "PCA 16, 8 bits",
        "refinement 20, PCA 16, 8 bits",
    ):
        row = part.measure(ALTERNATIVES[name][1])
        assert 0.4 <= row["accuracy"] <= 1, name
        assert row["bytes"] > 0
        assert row["classifier_bytes"] == 8 * (row["n_columns"] + 1)


def rows_of(**points):
    return [
        {"set": "made", "split": split, "name": name, "group": "PCA", "accuracy": accuracy,
         "bytes": size, "classifier_bytes": 1}
        for name, (accuracy, size, _) in points.items()
        for split in (0, 1)
    ]  # fmt: skip


def test_the_front_is_what_nothing_else_beats(tmp_path):
    points = {"a": (0.9, 99, 5), "b": (0.8, 49, 6), "c": (0.7, 60, 1), "d": (0.9, 120, 5.5)}
    times = [{"set": "made", "name": name, "ms": ms} for name, (*_, ms) in points.items()]
    found = planes({"rows": rows_of(**points), "times": times})["made"]
    assert [point["name"] for point in found if point["by_bytes"]] == ["a", "b"]
    assert [point["name"] for point in found if point["by_ms"]] == ["a", "c"]
    assert found[0]["bytes"] == 100
    draw_alternatives({"made": found}, tmp_path)
    for name in ("alternatives-bytes.svg", "alternatives-ms.svg"):
        ElementTree.parse(tmp_path / name)


@pytest.mark.slow
def test_records_are_written_by_alternative_and_kept(tmp_path, scenes, monkeypatch):
    monkeypatch.setattr("benchmarks.alternatives.SETS", {"scene15": ("Scenes", 5, None)})
    monkeypatch.setattr("benchmarks.alternatives.HERE", tmp_path / "benchmarks")
    monkeypatch.setattr("benchmarks.alternatives.N_WORDS", 30)
    path = tmp_path / "records.json"
    given = [
        "--scene15",
        str(scenes),
        "--work",
        str(tmp_path / "work"),
        "--splits",
        "1",
        "--output",
    ]
    given += [str(path), "--only", "k-means 2"]
    main(given)
    before = path.read_bytes()
    assert [row["name"] for row in json.loads(before)["rows"]] == ["k-means 20", "k-means 200"]
    main(given)
    assert path.read_bytes() == before
    main([*given, "--time"])
    assert len(json.loads(path.read_text())["times"]) == 2
