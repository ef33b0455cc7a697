"""``bowsaw whatif`` is the library, with a table, and loses nothing that was measured."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest

from bowsaw import BagOfWords, Codebook, Store, load, save, whatif
from bowsaw.cli.main import parser
from bowsaw.errors import DataError, FormatError, MismatchError, ParameterError, StoreError
from bowsaw.inference import survey
from bowsaw.inference.exact import ExactState
from bowsaw.inference.survey import Survey, draw_words

HARD = (
    "exact",
    "uniform, nearest-surviving",
    "uniform, sequential",
    "uniform, chain",
    "voronoi",
    "gaussian, isotropic",
    "gaussian, shared",
    "empirical",
)


@pytest.fixture
def ask(bowsaw, made, parts):
    """Type ``whatif`` for the 30 images of the part train."""

    def type_command(*words: object) -> object:
        return bowsaw("whatif", made.book, made.store, "--part", "train", *parts, *words)

    return type_command


# -- the table -------------------------------------------------------------------------------------


def test_whatif_shows_every_way(ask):
    found = ask("--keep", 5, "--transfer", "all", "--move", 2)
    header, *lines = found.lines()
    assert header.split("  ")[0] == "way"
    assert " ".join(header.split()) == (
        "way mean error worst error verdict build memory a move re-encoding speed-up"
    )
    rows, legend = lines[: len(HARD)], lines[len(HARD) + 1 :]
    assert all(line == line.rstrip() for line in lines)
    assert [row[:28].rstrip() for row in rows] == list(HARD)
    cells = {row[:28].rstrip(): row[28:].split() for row in rows}
    assert cells["exact"][:3] == ["0", "0", "identical"]
    assert cells["voronoi"] == ["-", "-", "not", "possible", "-", "-", "-", "-", "-"]
    for name in HARD:
        if name not in ("exact", "voronoi"):
            assert cells[name][2] == "approximate"
            assert 0 < float(cells[name][0]) <= float(cells[name][1]) <= 2
        if name != "voronoi":
            assert cells[name].count("ms") == 2
            assert cells[name][-1] == "x"
    shown = " ".join(" ".join(legend).split())
    assert "0 is equal, 2 has nothing in common (30 images compared)" in shown
    assert "replacing 2 of 5 kept words in the histograms of 30 images" in shown
    assert "voronoi transfer='voronoi' integrates over cells of at most 3 dimensions" in shown
    assert found.err == "30 images with 480 descriptors; 5 of 12 words kept; hard coding\n"


def test_whatif_of_soft_coding_is_within_a_proven_limit(ask):
    found = ask("--keep", 5, "--transfer", "all", "--coding", "soft", "--sharpness", 7)
    way, _, worst, word, limit, *_ = found.lines()[1].split()
    assert (way, word) == ("exact", "within")
    assert float(worst) <= float(limit) < 0.01
    assert found.err.endswith("soft coding of sharpness 7\n")


def test_whatif_takes_the_exact_way_unless_told_otherwise(ask):
    _, row, empty, *legend = ask("--keep", 5).lines()
    assert (row.split()[0], empty) == ("exact", "")
    assert [line.split("  ")[0] for line in legend if line[0] != " "] == [
        "error",
        "verdict",
        "a move",
        "speed-up",
    ]


def test_whatif_quietly_still_answers(ask):
    found = ask("--keep", 5, "-q")
    assert found.lines()[1].startswith("exact")
    assert found.err == ""


def test_a_certificate_that_does_not_hold_is_told_loudly(ask, monkeypatch):
    monkeypatch.setattr(
        ExactState, "recode", lambda state, bags: np.zeros((len(bags), state.n_kept))
    )
    # Exact hard coding is allowed no error at all.
    assert "BEYOND 0 " in ask("--keep", 5).lines()[1]


# -- the numbers -----------------------------------------------------------------------------------


def answer(found):
    assert found.code == 0, found.err
    return json.loads(found.out)


@pytest.mark.parametrize(
    ("coding", "transfers"),
    [("hard", ["exact", "uniform", "gaussian", "empirical"]), ("soft", ["exact"])],
)
def test_whatif_is_the_library(ask, made, coding, transfers):
    chosen = ("--coding", coding, "--transfer", ",".join(transfers), "--seed", 4, "--sample", 9)
    book = load(made.book)
    found = answer(ask("--keep", 7, *chosen, "--json"))
    kept = draw_words(book, 7, 4)
    assert found["kept"] == kept.tolist()
    assert found["part"] == "train"
    assert found["split"] == {"codebook": 10, "train": 10, "seed": 4, "index": 0}
    store = Store(made.store)
    bags = store.bags[store.split(codebook=10, train=10, seed=4).train]
    assert list(dict.fromkeys(way["transfer"] for way in found["ways"])) == transfers
    for way in found["ways"]:
        options = way["options"]
        if way["transfer"] in ("gaussian", "empirical"):
            options["random_state"] = 4
        state = whatif(book, bags, coding=coding, transfer=way["transfer"], **options)
        twin = state.reset(kept).fidelity(9, random_state=4).record()
        assert way["fidelity"] == pytest.approx(twin, abs=1e-6)
        assert way["speed_up"] == found["recode_seconds"] / way["move_seconds"]


def test_the_words_of_a_pruned_codebook_are_kept(ask, made):
    save(load(made.book).only([9, 2, 5]), "small.safetensors")
    found = answer(ask("--kept", "small.safetensors", "--json"))
    assert found["kept"] == [2, 5, 9]
    assert found["move_size"] == 3


def test_all_images_are_used_unless_a_part_is_named(bowsaw, made):
    found = answer(bowsaw("whatif", made.book, made.store, "--keep", 5, "--json"))
    assert (found["part"], found["n_bags"], found["n_descriptors"]) == ("all", 432, 6912)
    assert (found["codebook"], found["store"]) == (str(made.book), str(made.store))


@pytest.mark.parametrize("flags", [("--perplexity", 3), ("--sharpness", "auto")])
def test_a_sharpness_is_learned_as_encode_learns_it(ask, made, flags):
    found = answer(ask("--keep", 5, "--coding", "soft", *flags, "--json"))
    store = Store(made.store)
    learn = store.split(codebook=10, train=10).train
    name, value = flags[0].strip("-"), flags[1]
    coder = BagOfWords(load(made.book), coding="soft", **{name: value})
    assert found["sharpness"] == coder.fit(store.bags[learn], store.y[learn]).sharpness_


def test_errors_do_not_depend_on_threads(ask):
    errors = [
        [
            way["fidelity"]
            for way in answer(
                ask("--keep", 5, "--transfer", "exact,uniform,empirical", "--json", "-j", n)
            )["ways"]
        ]
        for n in (1, 2)
    ]
    assert errors[0] == errors[1]


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("move_size", "move_size"),
        ("n_moves", "n_moves"),
        ("sample", "sample"),
        ("jobs", "n_jobs"),
        ("seed", "seed"),
        ("coding", "coding"),
    ],
)
def test_defaults_are_those_of_the_survey(option, name):
    options = parser("whatif").parse_args(["whatif", "b", "s", "--keep", "5"])
    assert getattr(options, option) == inspect.signature(Survey).parameters[name].default


# -- what goes wrong -------------------------------------------------------------------------------


def test_an_error_in_a_later_way_loses_no_row(ask):
    found = ask("--keep", 5, "--transfer", "exact,voronoi,uniform")
    assert found.code == ParameterError.exit_code
    assert found.out.splitlines()[1].startswith("exact")
    assert "at most 3 dimensions" in found.complaint
    assert "voronoi" not in found.out


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_interruption_loses_no_row(ask, monkeypatch, more):
    def interrupted(book, bags, **options):
        if options["transfer"] == "uniform":
            raise KeyboardInterrupt
        return whatif(book, bags, **options)

    monkeypatch.setattr(survey, "whatif", interrupted)
    found = ask("--keep", 5, "--transfer", "all", *more)
    assert found.code == 130
    assert found.complaint == (
        "bowsaw: interrupted. What was measured by then is shown; --transfer chooses fewer ways."
    )
    if more:
        assert [way["way"] for way in json.loads(found.out)["ways"]] == ["exact"]
    else:
        assert found.out.splitlines()[1].startswith("exact")


@pytest.mark.parametrize(
    ("words", "kind", "told"),
    [
        ("--keep 12", ParameterError, "from 1 to 11 (the codebook has 12 words"),
        ("--keep 5 --transfer best", ParameterError, "got 'best'"),
        ("--keep 5 --transfer all,exact", ParameterError, "got 'all,exact'"),
        ("--keep 5 --transfer voronoi", ParameterError, "at most 3 dimensions"),
        ("--keep 5 --sharpness 3", ParameterError, "belongs to soft coding"),
        ("--keep 5 --coding soft --sharpness 0 --transfer all", ParameterError, "sharpness must"),
        ("--keep 5 --coding soft --perplexity 99", ParameterError, "perplexity must"),
        ("--kept missing.safetensors", FormatError, "is not a file"),
        ("--kept same.safetensors", MismatchError, "has all 12 words"),
        ("--kept other.safetensors", MismatchError, "has other words of these ids"),
        ("--kept more.safetensors", MismatchError, "has no word 12"),
        ("--keep 5 --train 140", DataError, "class 'brick' has 144 images"),
    ],
)
def test_bad_input_is_told_in_one_line(ask, made, words, kind, told):
    book, other = load(made.book), load(made.other_book)
    save(book, "same.safetensors")
    save(other.only([1, 2]), "other.safetensors")
    save(Codebook(book.words[:2], [11, 12], scale=book.scale), "more.safetensors")
    found = ask(*words.split(), "-q")
    assert (found.code, found.out) == (kind.exit_code, "")
    assert len(found.err.splitlines()) == 1
    assert told in found.err


@pytest.mark.parametrize(
    ("words", "kind", "told"),
    [
        ("missing.safetensors {store}", FormatError, "is not a file"),
        ("{book} missing.store", StoreError, "missing.store is not there"),
        ("{other} {store}", MismatchError, "was trained on"),
    ],
)
def test_files_that_do_not_fit_are_told_before_the_work(bowsaw, made, words, kind, told):
    names = words.format(store=made.store, book=made.book, other=made.other_book).split()
    found = bowsaw("whatif", *names, "--keep", 5, "--transfer", "all", "-q")
    assert (found.code, found.out) == (kind.exit_code, "")
    assert told in found.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "one of the arguments --keep --kept is required"),
        (("--keep", 5, "--kept", "x"), "not allowed with argument --keep"),
        (("--keep", 0), "got '0'"),
        (("--keep", 5, "--move", 0), "argument --move: must be"),
        (("--keep", 5, "--moves", "many"), "argument --moves: must be"),
        (("--keep", 5, "--sample", -1), "argument --sample: must be"),
    ],
)
def test_wrong_usage_is_told_in_one_line(ask, words, told):
    found = ask(*words)
    assert (found.code, found.out) == (2, "")
    assert len(found.err.splitlines()) == 1
    assert told in found.err
