"""``bowsaw prune`` is the estimators; its file records which images chose it; no search is lost."""

import re
import shlex
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Interrupter, content

from bowsaw import BagOfWords, KMeansCodebook, PresenceRanking, Store, load
from bowsaw.cli.command import Command
from bowsaw.cli.main import parser
from bowsaw.cli.prune import _next_command, _read_task
from bowsaw.errors import DataError, LeakError, MismatchError
from bowsaw.evaluation.path import PruningPath
from bowsaw.selection.annealing import Annealing, Search
from bowsaw.selection.baselines import RandomSubset
from bowsaw.selection.coverage import Coverage
from bowsaw.selection.descent import Slopes
from bowsaw.selection.elimination import _Elimination
from bowsaw.selection.refinement import Refinement

QUICK = ("--method", "annealing", "--steps", 60)
MOVED = ("--steps", 4, "--folds", 0)
OUTPUT = Path("small.safetensors")
PARTIAL = Path("small.safetensors.partial")


@pytest.fixture
def prune(bowsaw, made):
    """Run ``prune`` with the 30 images of the part train."""

    def run(*words, output=OUTPUT):
        return bowsaw("prune", made.book, made.store, *words, "-o", output)

    return run


@pytest.fixture
def train_part(made):
    """The images and labels of the part train."""
    store = Store(made.store)
    rows = store.split.train
    return store.bags[rows], store.y[rows]


@pytest.mark.parametrize(
    ("words", "estimator"),
    [
        ((*QUICK, "--score", "presence"), Annealing(None, score="presence", n_steps=60)),
        ((*QUICK, "--coding", "soft"), Annealing(None, n_steps=60, coding="soft")),
        (MOVED, Refinement(None, n_steps=4, n_folds=0)),
        ((*MOVED, "--coding", "soft"), Refinement(None, n_steps=4, n_folds=0, coding="soft")),
        (("--method", "paper"), Annealing.paper(None)),
        (("--method", "elimination"), PruningPath(None)),
        (("--method", "random"), RandomSubset(None)),
        (("--method", "presence"), PresenceRanking(None, recode=True)),
    ],
)
def test_prune_is_the_estimator(prune, made, train_part, words, estimator):
    prune("--keep", 5, *words).lines()
    twin = estimator.set_params(codebook=load(made.book), n_kept=5)
    if "random_state" in twin.get_params():
        twin.set_params(random_state=0)
    twin.fit(*train_part)
    small = load(OUTPUT)
    assert np.array_equal(small.words, twin.codebook_.words)
    assert np.array_equal(small.ids, twin.codebook_.ids)
    record = small.provenance["pruned"]
    assert record.get("sharpness") == (40.0 if "soft" in words else None)
    if isinstance(twin, Annealing | Refinement):
        moved = hasattr(twin, "errors_")
        ends = -twin.errors_[[0, -1]] if moved else (twin.selection_.scores[0], twin.score_)
        assert record["scores"] == pytest.approx(ends, rel=1e-5)


def test_coverage_needs_no_classes(bowsaw, made, tmp_path):
    shutil.copytree(made.images / "gravel", tmp_path / "one" / "gravel")
    bowsaw("extract", "one", "-o", "one.store").lines()
    words = ("prune", made.book, "one.store", "--keep", 5, "-o", OUTPUT)
    found = bowsaw(*words, "--method", "coverage", "--part", "all", "--seed", 3)
    assert found.err.startswith("5 of 12 words by 144 images of 1 class (all of them); hard coding")
    twin = Coverage(load(made.book), 5, random_state=3).fit(Store("one.store").bags)
    assert np.array_equal(load(OUTPUT).ids, twin.codebook_.ids)
    cost = f"{-twin.selection_.scores[-1]:.4g}"
    assert found.lines()[1] == f"mean squared distance of a descriptor to its nearest word: {cost}"
    refused = bowsaw(*words)
    assert refused.code == DataError.exit_code
    assert "--method coverage" in refused.complaint


def test_kmeans_trains_on_the_images_of_the_large_codebook(prune, bowsaw, made):
    distance = prune("--keep", 5, "--method", "kmeans").lines()[1]
    store = Store(made.store)
    twin = KMeansCodebook(5, random_state=0).fit(store.bags[store.split.codebook])
    small = load(OUTPUT)
    assert np.array_equal(small.words, twin.codebook_.words)
    assert np.array_equal(small.trained_on, np.unique(store.bags.digests[store.split.codebook]))
    assert distance.endswith(f"nearest word: {twin.objective_:.4g}")
    assert small.provenance["pruned"]["part"] == "codebook"
    assert bowsaw("evaluate", made.store, "--codebook", OUTPUT).code == 0


def test_an_allowed_loss_sets_the_size(prune, made, train_part):
    found = prune("--max-loss", 0.2)
    path = PruningPath(load(made.book), random_state=0).fit(*train_part)
    advice = path.recommend(max_loss=0.2)
    small = load(OUTPUT)
    assert small.n_words == advice.n_words < 12
    assert np.array_equal(small.ids, advice.codebook.ids)
    record = small.provenance["pruned"]
    assert record["max_loss"] == 0.2
    estimate = (record["estimate"]["loss"], record["estimate"]["loss_se"])
    assert estimate == pytest.approx((advice.loss, advice.loss_se), rel=1e-5, abs=1e-9)
    [line] = [line for line in found.lines() if line.startswith("estimate: ")]
    # All but the time that coding takes is the same in both.
    timeless = [re.sub(r"[\d.e+-]+ ms", "ms", str(text)) for text in (line[10:], advice)]
    assert timeless[0] == timeless[1]
    assert "accuracy: unknown" not in found.err


def test_a_sharpness_is_learned_from_the_images_that_choose(prune, made, train_part):
    prune("--keep", 5, "--method", "coverage", "--coding", "soft", "--sharpness", "auto").lines()
    coder = BagOfWords(load(made.book), coding="soft", sharpness="auto", random_state=0)
    sharpness = coder.fit(*train_part).sharpness_
    assert load(OUTPUT).provenance["pruned"]["sharpness"] == pytest.approx(sharpness, rel=1e-5)


WORD_BYTES = 4 * 128 + 8


@pytest.mark.parametrize("words", [MOVED, ("--method", "coverage")])
def test_a_file_is_never_larger_than_allowed(prune, words):
    refused = prune("--max-bytes", 100, *words)
    least = int(re.search(r"at least (\d+)", refused.complaint)[1])
    for more, n_words in ((0, 1), (3 * WORD_BYTES - 1, 3), (5 * WORD_BYTES, 6), (10**6, 12)):
        line = prune("--max-bytes", least + more, *words).lines()[1]
        size = OUTPUT.stat().st_size
        assert line == f"size: {size:,} of {least + more:,} bytes"
        assert size <= least + more
        assert load(OUTPUT).n_words == n_words


def test_a_record_that_does_not_fit_is_shortened(prune, monkeypatch):
    monkeypatch.setattr("bowsaw.cli.prune._RESERVED", 1100)
    least = int(re.search(r"at least (\d+)", prune("--max-bytes", 100).complaint)[1])
    prune("--max-bytes", least, *QUICK).lines()
    assert OUTPUT.stat().st_size <= least
    assert load(OUTPUT).provenance["pruned"]["selection"] is None


def test_the_file_records_what_chose_its_words(prune, bowsaw, made, train_part):
    prune("--keep", 5, *QUICK).lines()
    book, small = load(made.book), load(OUTPUT)
    record = small.provenance.pop("pruned")
    more = {"selected_by": "annealing", "pruned": record}
    assert {**book.provenance, **more} == small.provenance
    expected = {
        "part": "train",
        "limit": "keep",
        "moves_left": 0,
        "store": Store(made.store).digest,
    }
    expected["split"] = Store(made.store).split.record()
    assert expected.items() <= record.items()
    chosen = record["selection"]
    assert (chosen["method"], chosen["codes_with"]) == ("annealing", "pruned")
    assert chosen["parameters"]["n_steps"] == 60
    assert np.array_equal(small.trained_on, np.union1d(book.trained_on, train_part[0].digests))
    assert (small.scale, small.description) == (book.scale, book.description)
    # A codebook that is pruned again records both.
    words = ("--keep", 4, "--method", "coverage", "-o", "tiny.safetensors")
    bowsaw("prune", OUTPUT, made.store, *words).lines()
    again = load("tiny.safetensors").provenance["pruned"]
    assert (again["n_words"], again["selection"]["method"]) == (5, "coverage")
    assert again["before"] == record


def test_images_that_chose_words_cannot_test_them(prune, bowsaw, made):
    prune("--keep", 5, *QUICK).lines()
    assert bowsaw("evaluate", made.store, "--codebook", OUTPUT, "-q").code == 0
    # With fewer images to train, one image per class that chose words becomes a test image.
    shutil.copytree(made.store, "scenes.store")
    bowsaw("split", "scenes.store", "10/9/rest").lines()
    leaked = bowsaw("evaluate", "scenes.store", "--codebook", OUTPUT, "-q")
    assert leaked.code == LeakError.exit_code
    assert "of which it has seen 3 test images" in leaked.complaint


def test_prune_reports_what_it_did_and_claims_no_accuracy(prune, made):
    found = prune("--keep", 5, *MOVED)
    first, score, moved = found.lines()
    small, large = (f"{path.stat().st_size / 1000:.0f} kB" for path in (OUTPUT, made.book))
    assert first.startswith(f"small.safetensors: 5 of 12 words, {small} instead of {large}, ")
    assert re.fullmatch(
        r"score: leave-one-out, of each step's sample, from -0\.\d+ to -0\.\d+ in 4 steps "
        r"\(higher is better\)",
        score,
    )
    assert moved.startswith("refinement: 4 steps, words moved by ")
    assert found.err == (
        "5 of 12 words by 30 images of 3 classes (part train); hard coding\n"
        "accuracy: unknown; the images that chose the words cannot test them\n"
    )
    quiet = prune("--keep", 5, *QUICK, "-q")
    assert (quiet.lines()[0].partition(",")[0], quiet.err) == (
        "small.safetensors: 5 of 12 words",
        "",
    )


@pytest.mark.parametrize(
    ("part", "coding"), [("train", ("--coding", "soft", "--sharpness", "7")), ("all", ())]
)
def test_the_suggested_command_works(prune, bowsaw, made, part, coding):
    words = ("--keep", 5, "--method", "coverage", *coding, "--part", part)
    prune(*words).lines()
    words = ("prune", made.book, made.store, "-o", OUTPUT, *words)
    options = parser("prune").parse_args([str(word) for word in words])
    options.typed = []
    following = shlex.split(_next_command(_read_task(Command(options))))
    assert following[:2] == ["bowsaw", "evaluate" if part == "train" else "encode"]
    assert bowsaw(*following[1:], "-q").code == 0


def files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path().iterdir()}


REFINED = ("--keep", 5, "--steps")


@pytest.mark.parametrize(
    ("step", "words", "stop", "kept", "message"),
    [
        ((Search, "step"), ("--keep", 5, *QUICK), 40, 25, "40 of 60 steps were done; the best"),
        ((Slopes, "gradient"), (*REFINED, 9, "--folds", 0), 6, 5, "5 of 9 steps were done; the"),
        # In the second fold: the words to begin with and the first fold are kept.
        ((Slopes, "gradient"), (*REFINED, 4, "--folds", 3), 6, 4, "the best words so far are in"),
        # The stop in hand, and the full one of its fold, are made again.
        ((_Elimination, "stop"), ("--max-loss", 0.2), 8, 6, ""),
    ],
    ids=["annealing", "refinement", "folds", "path"],
)
def test_an_interrupted_search_continues(prune, monkeypatch, step, words, stop, kept, message):
    steps = Interrupter(monkeypatch, *step)
    prune(*words, output="whole.safetensors").lines()
    total = steps.n_calls
    steps.stop_after(stop)
    torn = prune(*words)
    assert (torn.code, torn.out) == (130, "")
    assert "Run the same command again to continue." in torn.complaint
    assert PARTIAL.exists()
    assert message in torn.complaint
    assert OUTPUT.exists() == bool(message)
    if message:
        assert load(OUTPUT).provenance["pruned"]["moves_left"] > 0
    steps.stop_after(0)
    prune(*words).lines()
    assert steps.n_calls == total - kept
    assert content(OUTPUT) == content(Path("whole.safetensors"))
    assert sorted(files()) == ["small.safetensors", "whole.safetensors"]


def test_other_settings_than_those_of_the_search_are_refused_or_start_again(prune, monkeypatch):
    steps = Interrupter(monkeypatch, Search, "step")
    prune("--keep", 5, *QUICK, output="whole.safetensors").lines()
    steps.stop_after(40)
    assert prune("--keep", 5, "--method", "annealing", "--steps", 61).code == 130
    steps.stop_after(0)
    before = files()
    for words, difference in (
        (("--keep", 6, *QUICK), "its n_kept was 5 and is 6"),
        (("--keep", 5, "--steps", 61), "its method was annealing and is refinement"),
        (("--keep", 5, "--method", "coverage"), "its method was annealing and is coverage"),
        (("--keep", 5, *QUICK[:3], 61, "--score", "relevance"), "its score was"),
        (("--max-loss", 0.1), "its method was annealing and is elimination"),
    ):
        refused = prune(*words)
        assert refused.code == MismatchError.exit_code
        assert difference in refused.complaint
        assert "--overwrite" in refused.complaint
        assert files() == before
    prune("--keep", 5, *QUICK, "--overwrite").lines()
    assert steps.n_calls == 60
    assert content(OUTPUT) == content(Path("whole.safetensors"))
    assert not PARTIAL.exists()


def test_an_interruption_before_the_search_leaves_nothing(prune, monkeypatch):
    monkeypatch.setattr(Annealing, "fit", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    assert prune("--keep", 5, *QUICK).code == 130
    assert files() == {}
