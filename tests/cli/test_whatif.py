"""``bowsaw whatif`` is the library, with a table, and loses nothing that was measured."""

import json

import numpy as np
import pytest

from bowsaw import BagOfWords, Store, load, save, whatif
from bowsaw.errors import ParameterError
from bowsaw.inference import survey
from bowsaw.inference.exact import ExactState
from bowsaw.inference.survey import draw_words

UNIFORM = ("uniform, nearest-surviving", "uniform, sequential", "uniform, chain")
HARD = ("exact", *UNIFORM, "voronoi", "gaussian, isotropic", "gaussian, shared", "empirical")


@pytest.fixture
def ask(bowsaw, made):
    """Run ``whatif`` with the 30 images of the part train."""

    def run(*words):
        return bowsaw("whatif", made.book, made.store, "--part", "train", *words)

    return run


def answer(found):
    assert found.code == 0, found.err
    return json.loads(found.out)


def test_the_table_has_every_way(ask):
    found = ask("--keep", 5, "--transfer", "all", "--swap", 2)
    header, *lines = found.lines()
    assert header.split()[-6:] == ["build", "memory", "a", "swap", "re-encoding", "speed-up"]
    rows, legend = lines[: len(HARD)], lines[len(HARD) + 1 :]
    assert all(line == line.rstrip() for line in lines)
    cells = {row[:28].rstrip(): row[28:].split() for row in rows}
    assert tuple(cells) == HARD
    assert cells.pop("exact")[:3] == ["0", "0", "identical"]
    assert cells.pop("voronoi") == ["-", "-", "not", "possible", "-", "-", "-", "-", "-"]
    for mean, worst, verdict, *costs in cells.values():
        assert verdict == "approximate"
        assert 0 < float(mean) <= float(worst) <= 2
        assert (costs.count("ms"), costs[-1]) == (2, "x")
    shown = " ".join(" ".join(legend).split())
    assert "0 is equal, 2 has nothing in common (30 images compared)" in shown
    assert "replacing 2 of 5 kept words in the histograms of 30 images" in shown
    assert "voronoi transfer='voronoi'" in shown
    assert found.err == "30 images with 480 descriptors; 5 of 12 words kept; hard coding\n"


def test_exact_soft_coding_has_a_proven_limit_and_a_broken_certificate_is_shown(ask, monkeypatch):
    found = ask("--keep", 5, "--coding", "soft", "--sharpness", 7)
    way, _, worst, word, limit, *_ = found.lines()[1].split()
    assert (way, word) == ("exact", "within")
    assert float(worst) <= float(limit) < 0.01
    assert found.err.endswith("soft coding of sharpness 7\n")
    monkeypatch.setattr(ExactState, "recode", lambda self, bags: np.zeros((len(bags), self.n_kept)))
    found = ask("--keep", 5, "-q")
    assert "BEYOND 0 " in found.lines()[1]
    assert found.err == ""


@pytest.mark.parametrize(
    ("coding", "transfers"),
    [("hard", ["exact", "uniform", "gaussian", "empirical"]), ("soft", ["exact"])],
)
def test_whatif_is_the_library(ask, made, coding, transfers):
    chosen = ("--coding", coding, "--transfer", ",".join(transfers), "--seed", 4, "--checked", 9)
    book = load(made.book)
    found, alone = (answer(ask("--keep", 7, *chosen, "--json", "-j", n)) for n in (2, 1))
    kept = draw_words(book, 7, 4)
    assert found["kept"] == kept.tolist()
    assert found["part"] == "train"
    store = Store(made.store)
    assert found["split"] == store.split.record()
    bags = store.bags[store.split.train]
    assert list(dict.fromkeys(way["transfer"] for way in found["ways"])) == transfers
    for way, single in zip(found["ways"], alone["ways"], strict=True):
        options = way["options"]
        if way["transfer"] in ("gaussian", "empirical"):
            options["random_state"] = 4
        state = whatif(book, bags, coding=coding, transfer=way["transfer"], **options)
        twin = state.reset(kept).fidelity(9, random_state=4).record()
        assert way["fidelity"] == pytest.approx(twin, abs=1e-6)
        assert way["fidelity"] == single["fidelity"]
        assert way["speed_up"] == found["recode_seconds"] / way["move_seconds"]


def test_the_words_of_a_pruned_codebook_are_kept_and_a_sharpness_is_learned(bowsaw, ask, made):
    save(load(made.book).only([9, 2, 5]), "small.safetensors")
    words = ("whatif", made.book, made.store, "--subset", "small.safetensors", "--json")
    found = answer(bowsaw(*words))
    assert (found["kept"], found["move_size"]) == ([2, 5, 9], 3)
    assert (found["part"], found["n_bags"], found["n_descriptors"]) == ("all", 432, 6912)
    assert (found["codebook"], found["store"]) == (str(made.book), str(made.store))
    found = answer(ask("--keep", 5, "--coding", "soft", "--perplexity", 3, "--json"))
    store = Store(made.store)
    learn = store.split.train
    coder = BagOfWords(load(made.book), coding="soft", perplexity=3, random_state=0)
    assert found["sharpness"] == coder.fit(store.bags[learn], store.y[learn]).sharpness_


def test_a_later_error_or_interruption_loses_no_row(ask, monkeypatch):
    found = ask("--keep", 5, "--transfer", "exact,voronoi,uniform")
    assert found.code == ParameterError.exit_code
    assert found.out.splitlines()[1].startswith("exact")
    assert "voronoi" not in found.out

    def interrupted(book, bags, **options):
        if options["transfer"] == "uniform":
            raise KeyboardInterrupt
        return whatif(book, bags, **options)

    monkeypatch.setattr(survey, "whatif", interrupted)
    found = ask("--keep", 5, "--transfer", "all", "--json")
    assert found.code == 130
    assert "What was measured by then is shown" in found.complaint
    assert [way["way"] for way in json.loads(found.out)["ways"]] == ["exact"]
