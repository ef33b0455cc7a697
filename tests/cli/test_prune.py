"""``bowsaw prune`` is the estimators; its codebook knows who chose it; nothing found is lost."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from bowsaw import Store, load, save
from bowsaw.cli import pruning
from bowsaw.cli.main import parser
from bowsaw.cli.prune import _next
from bowsaw.cli.pruning import task_of
from bowsaw.errors import DataError, LeakError, MismatchError, ParameterError
from bowsaw.evaluation.path import PruningPath
from bowsaw.selection.annealing import Annealing
from bowsaw.selection.coverage import Coverage
from bowsaw.selection.refinement import Refinement
from bowsaw.selection.search import Search
from bowsaw.selection.slopes import Slopes
from bowsaw.selection.trail import TrailFile

QUICK = ("--method", "annealing", "--steps", 60)
MOVED = ("--steps", 4, "--folds", 0)


@pytest.fixture
def prune(bowsaw, made, parts):
    """Type ``prune`` for the 30 images of the part train."""

    def type_command(*words: object, output: str = "small.safetensors") -> object:
        options = ("--part", "train", *parts, *words, "-o", output)
        return bowsaw("prune", made.book, made.store, *options)

    return type_command


@pytest.fixture
def chosen_by(made):
    """The images and labels of the part train."""
    store = Store(made.store)
    rows = store.split(codebook=10, train=10).train
    return store.bags[rows], store.y[rows]


# -- the words -------------------------------------------------------------------------------------


@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_prune_is_the_estimator(prune, made, chosen_by, coding):
    prune("--keep", 5, *QUICK, "--seed", 0, "--coding", coding, "--score", "presence").lines()
    twin = Annealing(load(made.book), 5, coding=coding, score="presence", n_steps=60)
    twin.fit(*chosen_by)
    small = load("small.safetensors")
    assert np.array_equal(small.words, twin.codebook_.words)
    assert np.array_equal(small.ids, twin.codebook_.ids)
    record = small.provenance["pruned"]
    assert record["scores"] == pytest.approx([twin.selection_.scores[0], twin.score_], rel=1e-5)
    assert record.get("sharpness") == (40.0 if coding == "soft" else None)


@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_words_are_refined_unless_told_otherwise(prune, made, chosen_by, coding):
    prune("--keep", 5, *MOVED, "--seed", 0, "--coding", coding).lines()
    twin = Refinement(load(made.book), 5, n_steps=4, n_folds=0, coding=coding)
    twin.fit(*chosen_by)
    small = load("small.safetensors")
    assert np.array_equal(small.words, twin.codebook_.words)
    assert np.array_equal(small.ids, twin.codebook_.ids)
    told = small.provenance["pruned"]
    assert told["selection"]["method"] == "refinement"
    assert told["selection"]["parameters"]["moved"] == pytest.approx(twin.moved_, rel=1e-5)
    ends = [-twin.errors_[0], -twin.errors_[-1]]
    assert told["scores"] == pytest.approx(ends, rel=1e-5)


@pytest.mark.parametrize("words", [QUICK, ("--steps", 0)])
def test_words_stay_as_they_are_without_refinement(prune, made, words):
    prune("--keep", 5, *words).lines()
    small = load("small.safetensors")
    assert np.array_equal(small.words, load(made.book).only(small.ids).words)


def test_the_published_search_is_the_papers(prune, made, chosen_by):
    prune("--keep", 5, "--method", "annealing", "--paper").lines()
    twin = Annealing.paper(load(made.book), 5).fit(*chosen_by)
    assert np.array_equal(load("small.safetensors").ids, twin.codebook_.ids)


def test_coverage_needs_no_classes(bowsaw, made, tmp_path):
    (tmp_path / "one").mkdir()
    shutil.copytree(made.images / "brick", tmp_path / "one" / "brick")
    bowsaw("extract", "one", "-o", "one.store", "-q").lines()
    words = ("prune", made.book, "one.store", "--keep", 5, "-o", "small.safetensors")
    refused = bowsaw(*words)
    assert refused.code == DataError.exit_code
    assert "the images have 1 ('brick')" in refused.complaint
    assert "--method coverage" in refused.complaint
    found = bowsaw(*words, "--method", "coverage", "--seed", 3)
    assert found.err.startswith("5 of 12 words by 144 images (all of them); hard coding\n")
    twin = Coverage(load(made.book), 5, random_state=3).fit(Store("one.store").bags)
    assert np.array_equal(load("small.safetensors").ids, twin.codebook_.ids)
    told = f"{-twin.selection_.scores[-1]:.4g}"
    assert found.lines()[1] == f"mean squared distance of a descriptor to its nearest word: {told}"


def test_a_loss_that_is_allowed_sets_the_size(prune, made, chosen_by):
    found = prune("--max-loss", 0.2)
    path = PruningPath(load(made.book)).fit(*chosen_by)
    advice = path.recommend(max_loss=0.2)
    small = load("small.safetensors")
    assert small.n_words == advice.n_words < 12
    assert np.array_equal(small.ids, advice.codebook.ids)
    estimate = small.provenance["pruned"]["estimate"]
    assert small.provenance["pruned"]["max_loss"] == 0.2
    assert estimate["loss"] == pytest.approx(advice.loss, rel=1e-5, abs=1e-9)
    assert estimate["loss_se"] == pytest.approx(advice.loss_se, rel=1e-5, abs=1e-9)
    [line] = [line for line in found.lines() if line.startswith("estimate: ")]
    # All but the time that coding takes is the same in both.
    timeless = [re.sub(r"[\d.e+-]+ ms", "ms", str(text)) for text in (line[10:], advice)]
    assert timeless[0] == timeless[1]
    assert " ± " in line
    assert "accuracy: not known" not in found.err


@pytest.mark.parametrize("flags", [("--perplexity", 3), ("--sharpness", "auto")])
def test_a_sharpness_is_learned_from_the_images_that_choose(prune, made, chosen_by, flags):
    prune("--keep", 5, *MOVED, "--coding", "soft", *flags).lines()
    name, value = flags[0].strip("-"), flags[1]
    coder = pruning.BagOfWords(load(made.book), coding="soft", **{name: value}).fit(*chosen_by)
    record = load("small.safetensors").provenance["pruned"]
    assert record["sharpness"] == pytest.approx(coder.sharpness_, rel=1e-5)


def test_one_thread_or_two_give_the_same_file(prune, content):
    for name, jobs in (("one", 1), ("two", 2)):
        prune("--keep", 5, *QUICK, "-j", jobs, output=f"{name}.safetensors").lines()
    assert content(Path("one.safetensors")) == content(Path("two.safetensors"))


# -- bytes -----------------------------------------------------------------------------------------

A_WORD = 4 * 128 + 8


def least_bytes(prune, *words: object) -> int:
    refused = prune("--max-bytes", 100, *words)
    assert refused.code == ParameterError.exit_code
    return int(re.search(r"at least (\d+)", refused.complaint)[1])


@pytest.mark.parametrize(
    "words",
    [("--method", "annealing", "--steps", 30), MOVED, ("--method", "coverage")],
)
def test_a_file_is_as_large_as_allowed(prune, words):
    least = least_bytes(prune, *words)
    for more in (0, A_WORD - 1, 3 * A_WORD, 3 * A_WORD + 100, 5 * A_WORD + 16, 100 * A_WORD):
        line = prune("--max-bytes", least + more, *words).lines()[1]
        size = Path("small.safetensors").stat().st_size
        assert line == f"size: {size:,} of {least + more:,} bytes"
        n_words = load("small.safetensors").n_words
        assert size <= least + more
        # A word more would not fit beside the longest record; the record had up to 400 bytes less.
        assert n_words == 12 or least + more - size < A_WORD + 400
        assert n_words == 12 or n_words in (1 + more // A_WORD, more // A_WORD)
    assert n_words == 12


def test_a_file_that_came_out_too_large_is_kept_and_told(prune, monkeypatch):
    # Scores of no length and no parameters: the record is longer in fact than was foreseen.
    monkeypatch.setattr(pruning, "LONGEST", 0.0)
    monkeypatch.setattr(pruning, "settings", lambda _: {})
    words = ("--method", "annealing", "--steps", 30)
    least = least_bytes(prune, *words)
    found = prune("--max-bytes", least, *words)
    assert found.code == ParameterError.exit_code
    assert f"--max-bytes allows {least:,}" in found.complaint
    assert load("small.safetensors").n_words == 1


# -- what the file says ----------------------------------------------------------------------------


def test_the_file_says_who_chose_its_words(prune, made, chosen_by):
    prune("--keep", 5, *QUICK).lines()
    book, small = load(made.book), load("small.safetensors")
    told = small.provenance.pop("pruned")
    assert {**book.provenance, "pruned": told} == small.provenance
    assert told["part"] == "train"
    assert told["split"] == {"codebook": 10, "train": 10, "seed": 0, "index": 0}
    assert told["store"] == Store(made.store).digest
    assert told["limit"] == "keep"
    assert told["selection"]["method"] == "annealing"
    assert told["selection"]["codes_with"] == "pruned"
    assert told["selection"]["parameters"]["n_steps"] == 60
    assert told["moves_left"] == 0
    seen = np.union1d(book.trained_on, chosen_by[0].digests)
    assert np.array_equal(small.trained_on, seen)
    assert (small.scale, small.description) == (book.scale, book.description)


def test_a_codebook_pruned_twice_remembers_both(prune, bowsaw, made, parts):
    prune("--keep", 7, *QUICK).lines()
    words = ("--part", "train", *parts, "--keep", 4, "--method", "coverage", "-q")
    bowsaw("prune", "small.safetensors", made.store, *words, "-o", "tiny.safetensors").lines()
    told = load("tiny.safetensors").provenance["pruned"]
    assert (told["n_words"], told["selection"]["method"]) == (7, "coverage")
    assert (told["before"]["n_words"], told["before"]["selection"]["method"]) == (12, "annealing")


def test_images_that_nobody_knows_are_not_claimed(bowsaw, made, parts):
    book = load(made.book)
    save(pruning.Codebook(book.words, scale=book.scale), "bare.safetensors")
    words = ("--part", "train", *parts, "--keep", 4, "--method", "coverage")
    bowsaw("prune", "bare.safetensors", made.store, *words, "-o", "small.safetensors").lines()
    assert load("small.safetensors").trained_on is None


def test_images_that_chose_words_cannot_test_them(prune, bowsaw, made, parts):
    prune("--keep", 5, *QUICK).lines()
    test = ("evaluate", made.store, "--codebook", "small.safetensors", *parts, "-q")
    assert bowsaw(*test).code == 0
    # With fewer images to train, one of each class that chose words becomes a test image. The
    # large codebook was trained on none of these, and may be tested on them.
    fewer = (*parts[:2], "--train", 9, "-q")
    large, small = (
        bowsaw("evaluate", made.store, "--codebook", book, *fewer)
        for book in (made.book, "small.safetensors")
    )
    assert (large.code, small.code) == (0, LeakError.exit_code)
    assert "trained on 3 of the" in small.complaint
    bowsaw("prune", made.book, made.store, "--keep", 5, *QUICK, "-o", "all.safetensors").lines()
    refused = bowsaw("evaluate", made.store, "--codebook", "all.safetensors", *parts)
    assert refused.code == LeakError.exit_code


# -- what is printed -------------------------------------------------------------------------------


def test_prune_says_what_it_did_and_claims_no_accuracy(prune, made):
    found = prune("--keep", 5, *MOVED)
    first, score, moved = found.lines()
    sizes = [Path(path).stat().st_size for path in ("small.safetensors", made.book)]
    kilobytes = [f"{size / 1000:.0f} kB" for size in sizes]
    assert first.startswith(
        f"small.safetensors: 5 of 12 words, {kilobytes[0]} instead of {kilobytes[1]}, "
    )
    assert re.fullmatch(
        r"score: leave-one-out, from -0\.\d+ to -0\.\d+ in 4 steps \(higher is better\)", score
    )
    assert moved.startswith("refined: the words moved by ")
    assert found.err == (
        "5 of 12 words by 30 images of 3 classes (part train); hard coding\n"
        "accuracy: not known yet; the images that chose the words cannot test them\n"
    )


def test_prune_quietly_says_nothing(prune):
    found = prune("--keep", 5, *QUICK, "-q")
    assert (found.lines(), found.err) == ([], "")


@pytest.mark.parametrize("part", ["train", "all"])
@pytest.mark.parametrize("coding", [(), ("--coding", "soft", "--sharpness", "7")])
def test_the_command_to_go_on_with_works(prune, bowsaw, made, parts, part, coding):
    words = ("--keep", 5, *QUICK, *coding, "--part", part)
    prune(*words).lines()
    files = (str(made.book), str(made.store), "-o", "small.safetensors")
    options = parser("prune").parse_args(["prune", *files, *parts, *map(str, words)])
    following = shlex.split(_next(task_of(options)))
    assert following[:2] == ["bowsaw", "evaluate" if part == "train" else "encode"]
    assert bowsaw(*following[1:], "-q").code == 0


# -- Ctrl-C ----------------------------------------------------------------------------------------


class Interrupter:
    """Calls a method, and sends a signal when it was called often enough."""

    def __init__(self, method):
        self.method, self.number, self.n_left, self.n_calls = method, signal.SIGINT, 0, 0

    def __get__(self, thing, kind=None):
        return partial(self, thing)

    def __call__(self, *args, **options):
        result = self.method(*args, **options)
        self.n_calls += 1
        self.n_left -= 1
        if self.n_left == 0:
            signal.raise_signal(self.number)
        return result


@pytest.fixture
def steps(monkeypatch):
    """The steps of a search, to be interrupted and counted."""
    found = Interrupter(Search.step)
    monkeypatch.setattr(Search, "step", found)
    return found


PARTIAL = Path("small.safetensors.partial")
ABOUT = Path("small.safetensors.partial.json")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_an_interrupted_search_keeps_the_best_and_goes_on(prune, content, steps, number, coding):
    words = ("--keep", 5, *QUICK, "--coding", coding)
    prune(*words, output="whole.safetensors").lines()
    steps.n_left, steps.number = 40, number
    torn = prune(*words)
    assert (torn.code, torn.out) == (128 + number, "")
    assert torn.complaint == (
        f"bowsaw: {'interrupted' if number == signal.SIGINT else 'terminated'}. 40 of 60 steps "
        "were done; the best words so far are in small.safetensors, and the same command with "
        "--resume goes on."
    )
    assert PARTIAL.exists()
    best = load("small.safetensors")
    assert best.n_words == 5
    assert best.provenance["pruned"]["moves_left"] == 20
    first, score = best.provenance["pruned"]["scores"]
    assert score >= first

    steps.n_calls = 0
    prune(*words, "--resume").lines()
    assert steps.n_calls < 60
    assert content(Path("small.safetensors")) == content(Path("whole.safetensors"))
    assert sorted(path.name for path in Path().iterdir()) == [
        "small.safetensors",
        "whole.safetensors",
    ]


def test_an_interrupted_refinement_keeps_its_words_and_goes_on(prune, content, monkeypatch):
    slopes = Interrupter(Slopes.gradient)
    monkeypatch.setattr(Slopes, "gradient", slopes)
    words = ("--keep", 5, "--steps", 9, "--folds", 0)
    prune(*words, output="whole.safetensors").lines()
    slopes.n_left = 6
    torn = prune(*words)
    assert torn.code == 130
    assert "5 of 9 steps were done; the best words so far are in" in torn.complaint
    assert load("small.safetensors").provenance["pruned"]["moves_left"] == 4
    slopes.n_calls = 0
    prune(*words, "--resume").lines()
    assert slopes.n_calls == 4
    assert content(Path("small.safetensors")) == content(Path("whole.safetensors"))
    assert not PARTIAL.exists()


def test_an_interrupted_check_goes_on(prune, content, monkeypatch):
    slopes = Interrupter(Slopes.gradient)
    monkeypatch.setattr(Slopes, "gradient", slopes)
    words = ("--keep", 5, "--steps", 4, "--folds", 3)
    found = prune(*words, output="whole.safetensors")
    total = slopes.n_calls
    [line] = [line for line in found.lines() if line.startswith("on images held out: error 0.")]
    assert line.endswith("which is as far as they went")
    # In the second fold: the words to begin with and the first fold are kept.
    slopes.n_left = 6
    torn = prune(*words)
    assert torn.code == 130
    assert "the same command with --resume goes on" in torn.complaint
    slopes.n_calls = 0
    prune(*words, "--resume").lines()
    assert slopes.n_calls == total - 4
    assert content(Path("small.safetensors")) == content(Path("whole.safetensors"))
    assert sorted(path.name for path in Path().iterdir()) == [
        "small.safetensors",
        "whole.safetensors",
    ]


def test_without_resume_all_begins_anew(prune, content, steps):
    prune("--keep", 5, *QUICK, output="whole.safetensors").lines()
    steps.n_left = 40
    assert prune("--keep", 5, *QUICK).code == 130
    steps.n_calls = 0
    found = prune("--keep", 5, *QUICK)
    assert "an interrupted search was in small.safetensors.partial; without --resume" in found.err
    assert steps.n_calls == 60
    assert content(Path("small.safetensors")) == content(Path("whole.safetensors"))
    assert not PARTIAL.exists()


def test_resume_with_nothing_to_go_on_with_says_so(prune, steps):
    found = prune("--keep", 5, *QUICK, "--resume")
    assert "there is no small.safetensors.partial to go on with, so all begins anew" in found.err
    assert (found.code, steps.n_calls) == (0, 60)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--keep", 6, *QUICK), "n_kept was 5 and is 6"),
        (("--keep", 5, "--method", "annealing", "--steps", 61), "n_steps was 60 and is 61"),
        (("--keep", 5, "--steps", 60), "method was Annealing and is Refinement"),
        (("--keep", 5, *QUICK, "--score", "presence"), "score was leave-one-out and is presence"),
        (("--keep", 5, *QUICK, "--seed", 1), "seed was 0 and is 1"),
        (("--max-loss", 0.1), "method was Annealing and is PruningPath"),
    ],
)
def test_the_search_of_something_else_is_not_gone_on_with(prune, steps, words, told):
    steps.n_left = 40
    assert prune("--keep", 5, *QUICK).code == 130
    before = [path.read_bytes() for path in (PARTIAL, ABOUT)]
    refused = prune(*words, "--resume")
    assert refused.code == MismatchError.exit_code
    assert f"small.safetensors.partial cannot go on: its {told}. Give" in refused.complaint
    assert [path.read_bytes() for path in (PARTIAL, ABOUT)] == before


def test_another_codebook_is_not_gone_on_with(prune, bowsaw, made, parts, steps):
    steps.n_left = 40
    assert prune("--keep", 5, *QUICK).code == 130
    words = ("--part", "train", *parts, "--keep", 5, *QUICK, "-o", "small.safetensors")
    refused = bowsaw("prune", made.book_of_all, made.store, *words, "--resume")
    assert (
        "small.safetensors.partial cannot go on: its codebook was another. Give"
        in refused.complaint
    )


@pytest.mark.parametrize("text", [None, "", "[]", "{}"])
def test_a_search_that_nobody_knows_is_not_gone_on_with(prune, text):
    PARTIAL.write_text("something")
    if text is not None:
        ABOUT.write_text(text)
    refused = prune("--keep", 5, *QUICK, "--resume")
    assert refused.code == MismatchError.exit_code
    assert "cannot go on: what it was begun with is not known" in refused.complaint


def test_an_interruption_before_the_search_leaves_nothing(prune, monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("bowsaw.selection.base.whatif", interrupted)
    found = prune("--keep", 5, *QUICK)
    assert found.code == 130
    assert found.complaint == (
        "bowsaw: interrupted. Nothing was chosen yet; run the same command again."
    )
    assert list(Path().iterdir()) == []


def test_an_interrupted_path_goes_on(prune, content, monkeypatch):
    stops = Interrupter(TrailFile.save)
    monkeypatch.setattr(TrailFile, "save", stops)
    prune("--max-loss", 0.2, output="whole.safetensors").lines()
    total = stops.n_calls
    # The path has 3 stops; then come those of the 5 folds.
    assert total == 18
    for n_done in (2, 8):
        stops.n_left, stops.n_calls = n_done, 0
        torn = prune("--max-loss", 0.2)
        assert torn.code == 130
        assert "What was done is in small.safetensors.partial; the same" in torn.complaint
        assert not Path("small.safetensors").exists()
        stops.n_calls = 0
        prune("--max-loss", 0.2, "--resume").lines()
        assert stops.n_calls == total - n_done
        assert content(Path("small.safetensors")) == content(Path("whole.safetensors"))
        Path("small.safetensors").unlink()
        assert [path.name for path in Path().iterdir()] == ["whole.safetensors"]


def test_what_was_asked_is_kept_as_long_as_the_search(prune, steps):
    steps.n_left = 40
    assert prune("--keep", 5, *QUICK).code == 130
    asked = json.loads(ABOUT.read_text())
    assert (asked["n_kept"], asked["n_steps"], asked["method"]) == (5, 60, "Annealing")
