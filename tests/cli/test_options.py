"""Options have the defaults of what they set, and limits that are told at once."""

from __future__ import annotations

import inspect
import re
import tempfile

import pytest

from bowsaw.cli.main import parser
from bowsaw.cli.options import check_output
from bowsaw.cli.pruning import METHODS
from bowsaw.clustering.kmeans import KMeansCodebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.errors import ParameterError
from bowsaw.evaluation.protocol import evaluate
from bowsaw.images.split import split_by_class
from bowsaw.selection.annealing import Annealing
from bowsaw.store import extract

REQUIRED = {
    "extract": ["IMAGES", "-o", "x.store"],
    "train": ["x.store", "-o", "x.safetensors"],
    "prune": ["x.safetensors", "x.store", "--keep", "9", "-o", "y.safetensors"],
    "encode": ["x.safetensors", "x.store", "-o", "x.npz"],
    "evaluate": ["x.store"],
    "inspect": ["x.store"],
}

SETS = [
    ("extract", "jobs", extract, "n_jobs"),
    ("extract", "strict", extract, "strict"),
    ("extract", "overwrite", extract, "overwrite"),
    *(
        ("extract", name, DenseSift, name)
        for name in ("patch", "step", "max_side", "min_contrast", "max_pixels", "dtype")
    ),
    *(("train", name, KMeansCodebook, name) for name in ("n_words", "max_iter", "tol", "sample")),
    ("train", "seed", KMeansCodebook, "random_state"),
    ("train", "jobs", KMeansCodebook, "n_jobs"),
    ("train", "split", split_by_class, "index"),
    ("prune", "jobs", Annealing, "n_jobs"),
    ("prune", "seed", Annealing, "random_state"),
    ("prune", "coding", Annealing, "coding"),
    ("encode", "coding", BagOfWords, "coding"),
    ("encode", "perplexity", BagOfWords, "perplexity"),
    ("encode", "seed", split_by_class, "seed"),
    ("encode", "split", split_by_class, "index"),
    ("encode", "jobs", BagOfWords, "n_jobs"),
    ("evaluate", "codebook", evaluate, "codebook"),
    ("evaluate", "train_codebook", evaluate, "codebook_images"),
    ("evaluate", "train", evaluate, "train"),
    ("evaluate", "seed", evaluate, "seed"),
    ("evaluate", "coding", evaluate, "coding"),
    ("evaluate", "sharpness", evaluate, "sharpness"),
    ("evaluate", "perplexity", evaluate, "perplexity"),
    ("evaluate", "output", evaluate, "resume"),
    ("evaluate", "jobs", evaluate, "n_jobs"),
]
"""Verb, option, function, parameter."""


def default(function: object, name: str) -> object:
    return inspect.signature(function).parameters[name].default


def help_of(verb: str, flag: str) -> str:
    [verbs] = [action for action in parser(verb)._actions if action.dest == "name"]
    [option] = [a for a in verbs.choices[verb]._actions if flag in a.option_strings]
    return option.help % vars(option)


@pytest.mark.parametrize(("verb", "option", "function", "name"), SETS)
def test_defaults_are_those_of_the_functions(verb, option, function, name):
    options = parser(verb).parse_args([verb, *REQUIRED[verb]])
    assert getattr(options, option) == default(function, name)


@pytest.mark.parametrize(
    ("verb", "flag", "function", "name"),
    [
        ("extract", "--patch", DenseSift, "patch"),
        ("train", "--words", KMeansCodebook, "n_words"),
        ("train", "--train-codebook", evaluate, "codebook_images"),
        ("prune", "--sharpness", Annealing, "sharpness"),
        ("encode", "--coding", BagOfWords, "coding"),
        ("encode", "--sharpness", BagOfWords, "sharpness"),
        ("evaluate", "--words", evaluate, "n_words"),
        ("evaluate", "--splits", evaluate, "splits"),
        ("evaluate", "--jobs", evaluate, "n_jobs"),
    ],
)
def test_the_help_shows_the_default(verb, flag, function, name):
    shown = default(function, name)
    shown = f"{shown:g}" if isinstance(shown, float) else shown
    assert re.search(rf"\(default: {shown}\b", help_of(verb, flag))


@pytest.mark.parametrize(
    ("verb", "flag", "value"),
    [
        ("extract", "--patch", "0"),
        ("extract", "--step", "-8"),
        ("extract", "--jobs", "0"),
        ("extract", "--jobs", "two"),
        ("extract", "--min-contrast", "low"),
        ("train", "--words", "0"),
        ("train", "--words", "1.5"),
        ("train", "--max-iter", "-1"),
        ("train", "--sample", "0"),
        ("train", "--seed", "-1"),
        ("train", "--split", "-1"),
        ("train", "--train-codebook", "-1"),
        ("train", "--train", "0"),
        ("prune", "--keep", "0"),
        ("prune", "--keep", "all"),
        ("prune", "--steps", "-1"),
        ("prune", "--refine", "some"),
        ("prune", "--max-bytes", "0"),
        ("prune", "--max-bytes", "64kB"),
        ("prune", "--max-bytes", "infk"),
        ("prune", "--max-bytes", "k"),
        ("prune", "--max-loss", "1.5"),
        ("prune", "--max-loss", "nan"),
        ("prune", "--max-loss", "little"),
        ("encode", "--sharpness", "sharp"),
        ("encode", "--perplexity", "auto"),
        ("evaluate", "--splits", "0"),
        ("evaluate", "--words", "-5"),
    ],
)
def test_numbers_out_of_range_are_named(bowsaw, verb, flag, value):
    found = bowsaw(verb, *REQUIRED[verb], flag, value)
    assert found.code == 2
    assert len(found.err.splitlines()) == 1
    assert flag in found.err
    assert f"got '{value}'" in found.err


def test_an_output_that_cannot_be_written_is_told_before_the_work(tmp_path, monkeypatch):
    check_output(str(tmp_path / "a.npz"), ".npz")
    assert list(tmp_path.iterdir()) == []

    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(ParameterError, match="Permission denied"):
        check_output(str(tmp_path / "a.npz"), ".npz")


def test_what_prune_does_by_default_is_told():
    assert "(default: refinement)" in help_of("prune", "--method")
    usual = METHODS["annealing"](None)
    for flag, name in (("--score", "score"), ("--steps", "n_steps")):
        assert f"(default: {getattr(usual, name)}" in help_of("prune", flag)
    assert f"(default: {METHODS['refinement'](None).n_steps})" in help_of("prune", "--steps")


@pytest.mark.parametrize("verb", ["train", "encode"])
def test_the_codebook_part_has_a_shorter_name_where_no_file_is_meant(verb: str) -> None:
    files = {"train": ["s.store"], "encode": ["b.safetensors", "s.store"]}[verb]
    options = parser(verb).parse_args([verb, *files, "-o", "out", "--codebook", "7"])
    assert options.train_codebook == 7
