"""Bad input that was taken for good, and messages that were wrong."""

import dataclasses
import errno
import importlib
import io
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import gettempdir
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from rich.console import Console
from tests.regressions import adapter
from tests.regressions.adapter import fail_rename

import bowsaw as bs
from bowsaw.cli.compare import Watcher
from bowsaw.comparison.cell import Experiment
from bowsaw.comparison.collection import Collection
from bowsaw.comparison.compare import Step
from bowsaw.comparison.methods import Method
from bowsaw.comparison.records import Key
from bowsaw.formats.classifier import LinearModel
from bowsaw.inference import soft


@pytest.fixture
def model(bowsaw, made):
    assert bowsaw("fit", made.book, made.store, "-j", 1, "-o", "m.safetensors").code == 0
    return "m.safetensors"


def test_predict_fails_where_a_named_file_cannot_be_used(bowsaw, made, model, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no image")
    good = made.images / "brick" / "000.png"
    found = bowsaw("predict", "-q", made.book, "--classifier", model, good, "bad.png", "gone.png")
    assert found.code == 3
    assert "000.png" in found.out
    for text in ("2 named files", "bad.png: not an image", "gone.png: missing file"):
        assert text in found.err


def test_predict_reports_a_broken_link(bowsaw, made, model, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "good.png").symlink_to(made.images / "brick" / "000.png")
    (tmp_path / "photos" / "gone.png").symlink_to(tmp_path / "nothing.png")
    found = bowsaw("predict", made.book, "--classifier", model, "photos")
    assert found.code == 0
    assert "photos/gone.png: missing file" in found.err
    (tmp_path / "pets").mkdir()
    (tmp_path / "photos").rename(tmp_path / "pets" / "photos")
    (tmp_path / "pets" / "cats").symlink_to(tmp_path / "nothing")
    found = bowsaw("extract", "pets", "-o", "pets.store", "-j", 1)
    assert found.code == 0
    assert "photos/gone.png: missing file" in found.out
    assert "cats is left out: a link that leads nowhere" in found.err


_PEAK = """
import resource, sys
unit = 1 if sys.platform == "darwin" else 1024
import cv2, numpy as np
from bowsaw.errors import ImageError
from bowsaw.images.decode import read_image
read_image(np.zeros((9, 9), np.uint8))
for name in ("clear.tif", "deep.tif", "plain.tif"):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        read_image(name, max_pixels=25_000_000)
        print("read", end=" ")
    except ImageError as error:
        print(error.reason.split()[0], end=" ")
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit // 24_000_000)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no resource module")
def test_a_small_file_does_not_take_all_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, shape, dtype in (
        ("clear.tif", (4000, 6000, 4), np.uint8),
        ("deep.tif", (4000, 6000, 3), np.uint16),
        ("plain.tif", (4000, 6000, 3), np.uint8),
    ):
        cv2.imwrite(name, np.zeros(shape, dtype))
        assert Path(name).stat().st_size < 2e6
    found = subprocess.run(
        [sys.executable, "-c", _PEAK], capture_output=True, text=True, check=True
    )
    (clear, deep, plain) = [line.split() for line in found.stdout.splitlines()]
    assert clear[0] == deep[0] == "6000×4000"
    assert (plain[0], int(clear[1]) + int(deep[1])) == ("read", 0)
    assert int(plain[1]) <= 8


@pytest.mark.parametrize("scale", [1e39, 1e-39, 1e-200])
def test_a_scale_beyond_float32_is_refused(scale, tmp_path):
    def export() -> None:
        book = bs.Codebook(np.eye(3), scale=scale)
        with np.errstate(over="ignore"):
            bs.formats.write_c_header(book, tmp_path / "words.h")

    assert adapter.is_refused(export)


@pytest.mark.parametrize("given", [{"weights": 1e39}, {"intercept": -1e39}, {"scale": 1e30}])
@pytest.mark.parametrize("write", [bs.formats.write_c_header, bs.formats.write_onnx])
def test_a_classifier_beyond_float32_is_not_exported(write, given, tmp_path):
    book = bs.Codebook(np.eye(3))
    model = LinearModel(
        np.full((1, 3), given.get("weights", 1e10)),
        [given.get("intercept", 0.0)],
        ["a", "b"],
        scale=given.get("scale", 1.0),
        codebook=book.digest,
    )
    assert adapter.is_refused(write, book, tmp_path / "file", model)


@pytest.mark.parametrize("name", ["description", "provenance"])
def test_a_codebook_that_could_not_be_saved_is_refused(name):
    assert adapter.is_refused(bs.Codebook, np.eye(3), **{name: {"x": float("inf")}})


def test_a_read_only_file_system_has_its_exit_code(bowsaw, made, monkeypatch):
    fail_rename(monkeypatch, "b.safetensors", errno.EROFS)
    found = bowsaw("train", made.store, "--words", 12, "-j", 1, "-o", "b.safetensors")
    assert found.code == 5
    assert "Choose another place" in found.err


def test_equal_selections_are_equal(toy):
    bags, _, book = toy
    one, other = (
        bs.RandomSubset(book, 5, random_state=0, n_jobs=1).fit(bags).selection_ for _ in range(2)
    )
    assert one == other
    assert hash(one) == hash(other)
    assert one != dataclasses.replace(other, scores=(0.5,))
    assert one != bs.RandomSubset(book, 5, random_state=1, n_jobs=1).fit(bags).selection_
    assert one != "a selection"


def test_no_dataclass_with_arrays_has_an_equality_that_raises():
    modules = [m.name for m in pkgutil.walk_packages(bs.__path__, "bowsaw.")]
    for name in modules:
        for found in vars(importlib.import_module(name)).values():
            if isinstance(found, type) and dataclasses.is_dataclass(found):
                types = " ".join(str(field.type) for field in dataclasses.fields(found))
                arrays = "NDArray" in types or "Rows" in types or "Bags" in types
                assert not (arrays and found.__dataclass_params__.eq), found


def test_a_certificate_holds_bag_by_bag(toy, monkeypatch):
    bags, _, book = toy
    state = bs.whatif(book, bags, n_jobs=1)
    state.reset([1, 3, 5])
    bounds, truth = np.zeros(24), state.histograms.copy()
    bounds[0] = 1.0
    truth[1, :2] += [0.25, -0.25]
    monkeypatch.setattr(state, "bound", lambda: bounds)
    monkeypatch.setattr(state, "recode", lambda _: truth)
    assert state.fidelity(sample=24, random_state=0).holds is False


def test_a_bug_in_the_page_is_not_blamed_on_the_records(tmp_path, monkeypatch):
    accuracies = {("full", 0): [0.8], ("random", 10): [0.7]}
    folder = adapter.run_with(tmp_path / "run", accuracies, 200)

    def bug(*_: object, **__: object) -> str:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(adapter.PAGE_FUNCTION, bug)
    with pytest.raises(Exception) as caught:
        bs.write_page(folder)
    assert not isinstance(caught.value, adapter.FORMAT_ERROR)


def test_a_client_of_dask_does_not_change_the_experiment(toy):
    bags, y, _ = toy
    data = Collection("toy", bags, y, ["a", "b"], codebook_images=4, train=4)

    def fingerprint(client: object) -> str:
        methods = {"mine": Method("mine", "", "", "pruned", bs.KMeansCodebook(parallel=client))}
        run = Experiment(Path("run"), {"toy": data}, methods, 0, 40.0, kmeans={"parallel": client})
        return run.split("toy", 0).fingerprint(Key("toy", 0, "hard", 8, "mine", 4))

    assert len({fingerprint(client) for client in (None, object(), object())}) == 1


def test_samples_of_gaussians_beyond_the_limit_are_refused():
    book = bs.Codebook(np.zeros((5000, 128)) + np.arange(5000)[:, None])
    options = {"transfer": "gaussian", "sigma": 1.0, "n_samples": 10_000}
    with pytest.raises(adapter.BowsawError, match="Ask for fewer n_samples"):
        bs.whatif(book, histograms=np.eye(1, 5000), **options)


_SOFT = """
import sys, time
import numpy as np
import bowsaw as bs
book, bags = bs.Codebook(np.eye(3)), bs.Bags(np.random.default_rng(0).random((50, 3)))
state = bs.whatif(book, bags, coding="soft", max_bytes=0)
print(state.on_disk, flush=True)
time.sleep(60)
"""


def test_soft_weights_are_on_disk_and_go_with_a_killed_process(tmp_path, monkeypatch):
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    assert soft._disk_folder() == ("/var/tmp" if sys.platform == "linux" else gettempdir())
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    running = subprocess.Popen([sys.executable, "-c", _SOFT], stdout=subprocess.PIPE, text=True)
    assert running.stdout.readline() == "True\n"
    running.kill()
    running.communicate()
    assert list(tmp_path.iterdir()) == []


CHOSEN = ("--keep", 4, "--method", "random")
COMPARED = ("--words", 12, "--sizes", 4, "--methods", "random", "--splits", 1)


def test_a_class_without_a_usable_image_is_left_out_everywhere(bowsaw, made, tmp_path):
    shutil.copytree(made.images, tmp_path / "pets")
    (tmp_path / "pets" / "clay").mkdir()
    for number in range(20):
        (tmp_path / "pets" / "clay" / f"{number}.png").write_bytes(b"no image")
    found = bowsaw("extract", "pets", "-o", "p.store", "-j", 1)
    assert found.code == 0
    assert "left out, because none of their images can be used: clay" in found.err
    assert "72 images in 3 classes" in found.out
    assert "clay/0.png: not an image" in found.out
    store = bs.Store("p.store")
    assert "clay" not in store.classes
    assert [store.classes[i] for i in store.y] == [path.partition("/")[0] for path in store.paths]
    for line in (
        ("train", "p.store", "--words", 12, "-o", "b.safetensors"),
        ("prune", "b.safetensors", "p.store", *CHOSEN, "-o", "s.safetensors"),
        ("fit", "s.safetensors", "p.store", "-o", "m.safetensors"),
        ("predict", "s.safetensors", "--classifier", "m.safetensors", "pets/brick"),
        ("encode", "s.safetensors", "p.store", "-o", "h.npz"),
        ("inspect", "h.npz"),
        ("evaluate", "p.store", "--codebook", "s.safetensors"),
        ("compare", "pets", *COMPARED, "-o", "run"),
    ):
        if line[0] != "inspect":
            line = (*line, "-j", 1)
        found = bowsaw(*line)
        assert found.code == 0, found.err
        assert "clay" not in found.out


UNUSED = """
extract {images} -o x.store --scheduler tcp://127.0.0.1:9 {{}} | -j 1; --jobs=1
prune {book} {store} -o x.safetensors --keep 2 {{}}       | --score relevance
prune {book} {store} -o x.safetensors --keep 2 {{}}       | --sharpness 3; --perplexity 3
prune {book} {store} -o x.safetensors --max-loss 0.1 {{}} | --method random; --folds 1
fit {book} {store} -o x.safetensors {{}}                  | --sharpness auto; --perplexity 3
split {store} {{}}                                        | --seed 1; --seed=1
encode {book} {store} -o x.npz --scheduler localhost:9 {{}} | -j1
whatif {book} {store} --keep 2 {{}}                       | --sharpness 9; --perplexity 2
evaluate {store} --codebook {book} {{}}                   | --words 5; --splits 2; --overwrite
evaluate {store} --json {{}}                              | --confusion; --sharpness 3
export {book} -o x.onnx {{}}                              | --word-dtype uint8; --name a
export {book} -o x.onnx --classifier c.safetensors {{}}   | --coding soft; --store s; --perplexity 3
compare {store} -o run {{}}                               | --sharpness 3; --preset caltech10
compare {store} -o run {{}}                               | --no-pixels; --split auto; --seed 1
compare {images} -o run {{}}                              | --images x
convert {book} x.npy {{}}                                 | --variable a; --layout rows; --scale 2
"""


@pytest.mark.parametrize("line", UNUSED.strip().splitlines())
def test_an_option_that_does_not_apply_is_refused(bowsaw, made, line):
    command, _, options = line.format_map(vars(made)).partition("|")
    for option in options.split(";"):
        found = bowsaw(*command.format(option).split())
        name = re.split("[ =1]", option.strip())[0].lstrip("-")
        assert found.code == 2
        assert "does not apply" in found.err or "Leave it out" in found.err
        assert name in found.err


def test_the_live_table_shows_brackets_of_a_name():
    shown = io.StringIO()
    console = Console(file=shown, width=100)
    watcher = Watcher(SimpleNamespace(quiet=True))
    result = {"accuracy": 0.5, "confusion": [[5, 4], [4, 5]]}
    about = {"coding": "hard", "full_words": 100, "method": "random", "size": 10, "split": 0}
    cell = {
        "set": "[old]",
        **about,
        "n_train": 9,
        "n_codebook": 9,
        "n_test": 18,
        "results": {"sqrt": result},
    }
    watcher.live = SimpleNamespace()
    watcher(Step(cell, 1, 2, None))
    console.print(watcher._render())
    assert "[old]" in shown.getvalue()
