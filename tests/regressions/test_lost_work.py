"""Work that was finished or saved, and then lost."""

import errno
import os
import shutil
import stat
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from tests.regressions import adapter
from tests.regressions.adapter import fail_rename

import bowsaw as bs
from bowsaw.checkpoint import Checkpoint, atomic_write, exclusive
from bowsaw.errors import BusyError
from bowsaw.store.histograms import HistogramWriter

ANNEALED = (*adapter.PRUNE_ANNEALING, "--keep", 6, "-j", 1)


def test_compare_with_another_seed_keeps_the_finished_cells(bowsaw, made, tmp_path):
    how = ("--words", 12, "--sizes", 4, "--methods", "random", "--splits", 1, "-j", 1, "-o", "run")
    shutil.copytree(made.store, "s.store")
    assert bowsaw("compare", "s.store", *how).code == 0
    before = [(c["seed"], c["results"]) for c in bs.read_run(tmp_path / "run").cells]
    assert bowsaw("split", "s.store", "8/8/rest", "--seed", 1).code == 0
    assert bowsaw("compare", "s.store", *how).code == 4
    assert [(c["seed"], c["results"]) for c in bs.read_run(tmp_path / "run").cells] == before


def test_evaluating_another_split_keeps_those_in_the_file(bowsaw, made, tmp_path):
    how = ("--words", 12, "-j", 1, "-o", "found")
    assert bowsaw("evaluate", made.store, "--splits", 2, *how).code == 0
    finished = bs.read_run(tmp_path / "found").select(split=1)
    assert bowsaw("evaluate", made.store, "--splits", 1, *how).code == 0
    assert bs.read_run(tmp_path / "found").select(split=1) == finished


def test_a_full_disk_at_the_end_of_training_keeps_the_checkpoint(
    bowsaw, made, tmp_path, monkeypatch, fast_clock
):
    fail_rename(monkeypatch, "b.safetensors", errno.ENOSPC)
    found = bowsaw("train", made.store, "--words", 12, "-j", 1, "-o", "b.safetensors")
    assert found.code != 0
    assert list(tmp_path.glob("b.safetensors.*"))


def interrupted_prune(bowsaw, made, monkeypatch, tmp_path, *more) -> dict[str, bytes]:
    """Interrupt a search and return the files that it leaves to continue from."""
    with monkeypatch.context() as patch:
        adapter.interrupt_score(patch, 150)
        words = ("prune", made.book, made.store, *ANNEALED, "--steps", 400, *more)
        assert bowsaw(*words, "-o", "s.safetensors").code == 130
    left = {path.name: path.read_bytes() for path in tmp_path.glob("s.safetensors.*")}
    assert left
    return left


def test_prune_with_other_options_keeps_an_interrupted_search(
    bowsaw, made, monkeypatch, tmp_path, fast_clock
):
    left = interrupted_prune(bowsaw, made, monkeypatch, tmp_path)
    words = ("prune", made.book, made.store, *ANNEALED, "--steps", 20, "-o", "s.safetensors")
    assert bowsaw(*words).code != 0
    assert {p.name: p.read_bytes() for p in tmp_path.glob("s.safetensors.*")} == left


@pytest.mark.parametrize("command", ["train", "prune"])
def test_an_unreadable_checkpoint_is_reported_and_kept(bowsaw, made, tmp_path, command):
    checkpoint = adapter.checkpoint_of(tmp_path / "s.safetensors")
    checkpoint.write_bytes(b"half a checkpoint")
    words = {
        "train": ("train", made.store, "--words", 12, "-j", 1),
        "prune": ("prune", made.book, made.store, *ANNEALED, "--steps", 20),
    }[command]
    found = bowsaw(*words, "-o", "s.safetensors")
    kept = [path for path in tmp_path.iterdir() if path.read_bytes() == b"half a checkpoint"]
    assert kept
    assert checkpoint.name in found.err


def test_a_second_prune_of_the_same_output_is_refused(bowsaw, made, tmp_path):
    words = ("prune", made.book, made.store, *ANNEALED, "-o", "s.safetensors")
    command = [sys.executable, "-m", "bowsaw", *map(str, words), "--steps", "100000000", "-q"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) as first:
        try:
            deadline = time.monotonic() + 60
            while not list(tmp_path.iterdir()):
                assert time.monotonic() < deadline
                assert first.poll() is None
                time.sleep(0.05)
            time.sleep(1.0)
            second = bowsaw(*words, "--steps", 20)
        finally:
            first.kill()
    assert second.code != 0


def test_an_interrupted_fit_raises(toy, monkeypatch):
    bags, y, book = toy
    adapter.interrupt_score(monkeypatch, 60)
    stopped = False
    try:
        bs.Annealing(book, 5, n_steps=100, random_state=0, n_jobs=1).fit(bags, y)
    except KeyboardInterrupt:
        stopped = True
    assert stopped


@pytest.mark.parametrize("estimator", ["Annealing", "Refinement", "PruningPath"])
def test_ctrl_c_ends_a_cross_validation(toy, monkeypatch, estimator):
    bags, y, book = toy
    chosen = {
        "Annealing": bs.Annealing(book, 5, n_steps=60, random_state=0, n_jobs=1),
        "Refinement": bs.Refinement(book, 5, n_steps=4, n_folds=1, random_state=0, n_jobs=1),
        "PruningPath": bs.PruningPath(book, sizes=[9, 5], random_state=0, n_jobs=1),
    }[estimator]
    adapter.interrupt_score(monkeypatch, 10, by_signal=True)
    fits = make_pipeline(chosen, bs.HistogramClassifier(C=1.0))
    with pytest.raises(KeyboardInterrupt):
        cross_val_score(fits, bags, y, cv=3)


def test_a_full_disk_after_an_interruption_is_reported(bowsaw, made, monkeypatch, fast_clock):
    adapter.interrupt_score(monkeypatch, 150, by_signal=True)
    fail_rename(monkeypatch, "s.safetensors", errno.ENOSPC)
    words = ("prune", made.book, made.store, *ANNEALED, "--steps", 400, "-o", "s.safetensors")
    assert "disk is full" in bowsaw(*words).err


def test_a_refused_move_is_a_rejected_move(toy, monkeypatch):
    bags, y, book = toy
    adapter.refuse_swaps(monkeypatch, type(bs.whatif(book, bags, n_jobs=1)), 40)
    found = bs.Annealing(book, 5, n_steps=60, random_state=0, n_jobs=1).fit(bags, y)
    assert len(found.accepted_) == 60


@pytest.mark.parametrize("score", ["leave-one-out", "relevance"])
def test_a_path_keeps_a_word_that_the_state_refuses_to_lose(toy, monkeypatch, score):
    bags, y, book = toy
    state = type(bs.whatif(book, bags, n_jobs=1))
    first, swap = int(book.ids[0]), state.swap

    def refusing(self, remove=(), add=()):
        if first in remove:
            raise adapter.DataError("word 0 is needed.")
        return swap(self, remove, add)

    monkeypatch.setattr(state, "swap", refusing)
    path = bs.PruningPath(book, sizes=[6, 3], score=score, random_state=0, n_jobs=1).fit(bags, y)
    assert first in path.selection_at(3).kept


def test_saving_follows_a_symbolic_link(tmp_path):
    target, link = tmp_path / "real.safetensors", tmp_path / "link.safetensors"
    target.write_bytes(b"old")
    link.symlink_to(target)
    bs.save(bs.Codebook(np.eye(2)), link)
    assert link.is_symlink()
    assert bs.load(target).n_words == 2


def test_saving_keeps_the_mode_of_the_file(tmp_path):
    path = tmp_path / "book.safetensors"
    path.write_bytes(b"old")
    path.chmod(0o600)
    bs.save(bs.Codebook(np.eye(2)), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_name_near_the_length_limit_is_saved(tmp_path):
    path = tmp_path / f"{'b' * 235}.safetensors"
    bs.save(bs.Codebook(np.eye(2)), path)
    assert path.is_file()


def test_a_file_that_is_in_place_is_saved(tmp_path, monkeypatch):
    fsync = os.fsync

    def failing(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(handle)

    monkeypatch.setattr("os.fsync", failing)
    bs.save(bs.Codebook(np.eye(2)), tmp_path / "book.safetensors")
    assert bs.load(tmp_path / "book.safetensors").n_words == 2


def test_extract_deletes_nothing_that_is_not_its_own(bowsaw, made, tmp_path):
    (tmp_path / "mine" / "pieces").mkdir(parents=True)
    (tmp_path / "mine" / "writer.lock").touch()
    (tmp_path / "mine" / "pieces" / "diary.txt").write_text("mine")
    bowsaw("extract", made.images, "-j", 1, "-o", "mine")
    assert (tmp_path / "mine" / "pieces" / "diary.txt").is_file()


def test_two_names_that_are_written_alike_leave_a_store(bowsaw, scenes, tmp_path):
    (image, *_) = sorted((scenes / "brick").iterdir())
    for name in ("a", "b"):
        folder = tmp_path / "images" / name
        folder.mkdir(parents=True)
        for file in (b"\xff.png", b"\\udcff.png", b"1.png"):
            (folder / os.fsdecode(file)).write_bytes(image.read_bytes())
    for _ in range(2):
        assert bowsaw("extract", "images", "-j", 1, "-o", "s.store").code == 0
    assert bs.Store(tmp_path / "s.store").n_usable >= 4


def test_interrupting_prune_again_keeps_the_finished_codebook(
    bowsaw, made, monkeypatch, tmp_path, fast_clock
):
    words = ("prune", made.book, made.store, *ANNEALED, "--steps", 400, "-o", "s.safetensors")
    assert bowsaw(*words).code == 0
    finished = (tmp_path / "s.safetensors").read_bytes()
    adapter.interrupt_score(monkeypatch, 150)
    assert bowsaw(*words).code == 130
    assert (tmp_path / "s.safetensors").read_bytes() == finished


def test_saving_removes_what_a_killed_process_has_left(tmp_path):
    abandoned = tmp_path / ".book.safetensors.0123456789ab.partial"
    mine = tmp_path / ".book.safetensors.draft.partial"
    for path in (abandoned, mine):
        path.write_bytes(b"half")
    bs.save(bs.Codebook(np.eye(2)), tmp_path / "book.safetensors")
    assert sorted(path.name for path in tmp_path.iterdir()) == [mine.name, "book.safetensors"]


def test_saving_keeps_the_temporary_file_of_a_living_process(tmp_path):
    with atomic_write(tmp_path / "book.safetensors") as file:
        file.write(b"first")
        bs.save(bs.Codebook(np.eye(2)), tmp_path / "book.safetensors")
    assert (tmp_path / "book.safetensors").read_bytes() == b"first"


@pytest.mark.parametrize("name", ["s.safetensors.lock", "s.safetensors"])
def test_a_file_that_is_not_ours_is_kept(bowsaw, made, tmp_path, name):
    (tmp_path / name).write_bytes(b"mine")
    found = bowsaw("train", made.store, "--words", 12, "-j", 1, "-o", "s.safetensors")
    assert found.code in (2, 5)
    assert (tmp_path / name).read_bytes() == b"mine"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_write_protected_output_is_kept(bowsaw, made, tmp_path):
    words = ("convert", made.book, "b.npy")
    assert bowsaw(*words).code == 0
    (tmp_path / "b.npy").chmod(0o444)
    assert bowsaw(*words).code == 2


def test_a_link_to_a_missing_folder_is_reported_before_training(bowsaw, made, tmp_path):
    (tmp_path / "s.safetensors").symlink_to(tmp_path / "missing" / "s.safetensors")
    found = bowsaw("train", made.store, "--words", 12, "-j", 1, "-o", "s.safetensors")
    assert found.code == 2
    assert "is not a folder" in found.err


def test_a_link_and_its_file_have_one_lock(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with exclusive(tmp_path / "real"), pytest.raises(BusyError):
        exclusive(tmp_path / "link").__enter__()


def test_the_end_of_a_lock_leaves_that_of_another_process(tmp_path):
    lock = tmp_path / "a.lock"
    with exclusive(tmp_path / "a"):
        lock.unlink()
        lock.touch()
    assert lock.exists()


def test_overwriting_histograms_never_leaves_rows_without_a_note(tmp_path, monkeypatch):
    path, shape = tmp_path / "h.npz", (4, 2)
    with HistogramWriter(path, shape, {"seed": 0}) as writer:
        writer.mark_done(2)
    monkeypatch.setattr(Checkpoint, "save", adapter.stop)
    with pytest.raises(KeyboardInterrupt):
        HistogramWriter(path, shape, {"seed": 1}, overwrite=True)
    monkeypatch.undo()
    HistogramWriter(path, shape, {"seed": 1}, overwrite=True).__exit__()


def test_a_run_that_was_killed_before_its_first_record_begins_again(bowsaw, made, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".run.json.0123456789ab.partial").write_bytes(b"{")
    how = ("--words", 12, "--splits", 1, "-j", 1, "-o", "run")
    assert bowsaw("evaluate", made.store, *how).code == 0
    assert not list((tmp_path / "run").glob(".*"))
