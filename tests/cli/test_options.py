"""Options have the defaults of what they set, and values out of range are refused at once."""

import re

import pytest

from bowsaw.cli.main import parser
from bowsaw.cli.options import address, default, fraction, n_bytes, read_sizes
from bowsaw.clustering.kmeans import KMeansCodebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.selection.annealing import USUAL_STEPS
from bowsaw.store import extract

REQUIRED = {
    "extract": "IMAGES -o x.store",
    "train": "x.store -o x.safetensors",
    "prune": "x.safetensors x.store --keep 9 -o y.safetensors",
    "encode": "x.safetensors x.store -o x.npz",
}


def test_defaults_are_those_of_the_functions():
    for command, function, names in (
        ("extract", extract, "strict overwrite"),
        ("extract", DenseSift, "patch step max_side min_contrast max_pixels dtype"),
        ("train", KMeansCodebook, "n_words max_iter tol sample"),
        ("encode", BagOfWords, "coding perplexity"),
    ):
        options = parser(command).parse_args([command, *REQUIRED[command].split()])
        for name in names.split():
            assert getattr(options, name) == default(function, name)


def test_the_help_shows_the_default():
    for command, flag, shown in (
        ("extract", "--patch", default(DenseSift, "patch")),
        ("train", "--jobs", -1),
        ("prune", "--method", "refinement"),
        ("prune", "--steps", USUAL_STEPS),
        ("prune", "--steps", 300),
    ):
        [commands] = [action for action in parser(command)._actions if action.dest == "name"]
        [option] = [a for a in commands.choices[command]._actions if flag in a.option_strings]
        assert re.search(rf"\(default: {shown}\b", option.help % vars(option))


WRONG = """
extract --patch 0, extract --jobs 0, extract --jobs two, extract --min-contrast low,
extract --scheduler here, extract --split 50, extract --split 50/0/rest,
train --words 1.5, train --seed -1, prune --keep all, prune --steps -1,
prune --max-bytes 0, prune --max-bytes 64kB, prune --max-bytes infk, prune --max-bytes k,
prune --max-loss 1.5, prune --max-loss nan, encode --sharpness sharp, encode --perplexity auto
"""


@pytest.mark.parametrize("words", [words.strip() for words in WRONG.split(",")])
def test_values_out_of_range_are_named(bowsaw, words):
    command, flag, value = words.split()
    found = bowsaw(command, *REQUIRED[command].split(), flag, value)
    assert found.code == 2
    assert len(found.err.splitlines()) == 1
    assert flag in found.err
    assert f"got '{value}'" in found.err


def test_values_are_read():
    assert [n_bytes(text) for text in ("500", "64k", "1.5M")] == [500, 65536, 1572864]
    assert fraction("0.01") == 0.01
    for text in ("tcp://10.0.0.1:8786", "head-node:8786"):
        assert address(text) == text
    assert [read_sizes(text) for text in ("50/40/rest", "0/1/rest")] == [(50, 40), (0, 1)]
    assert read_sizes("auto") == "auto"
