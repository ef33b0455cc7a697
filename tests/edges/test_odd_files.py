"""Things that are no files, outputs that are inputs, closed folders and full disks."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import bowsaw as bs
from bowsaw.cli.main import main
from bowsaw.errors import FormatError, ParameterError, SpaceError, StoreError


@contextmanager
def within(seconds: int):
    """End a test that hangs."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def typed(line: str, capfd) -> tuple[int, str]:
    capfd.readouterr()
    code = main([*line.split(), "-q"])
    said = capfd.readouterr().err
    assert said.startswith("bowsaw: ") == (code != 0)
    assert "\n" not in said.rstrip("\n")
    return code, said


if sys.platform != "win32":
    from tests.cli.terminal import no_file_larger_than

    @pytest.mark.parametrize(
        "line",
        [
            "inspect pipe.safetensors",
            "inspect pipe",
            "encode pipe.safetensors a.store -o x.npz",
            "encode book.safetensors pipes.store -o x.npz",
            "convert pipe.mat x.npy",
            "predict book.safetensors pipe.safetensors images/brick/000.png",
            "report pipes",
            "evaluate a.store --train-codebook 1 --train 1 --words 4 --splits 1 -o pipe.json",
            "evaluate a.store --codebook pipe.safetensors",
            "extract pipe -o x.store",
            "extract images -o pipe",
        ],
    )
    def test_a_pipe_in_a_files_place_is_refused_and_nobody_waits(place, line, capfd):
        for name in ("safetensors", "npz", "mat", "json"):
            os.mkfifo(f"pipe.{name}")
        os.mkfifo("pipe")
        for name in ("pipes.store/catalog.sqlite", "pipes/run.json"):
            Path(name).parent.mkdir()
            os.mkfifo(name)
        with within(30):
            code, _ = typed(line, capfd)
        assert 2 <= code <= 9

    @pytest.mark.parametrize("device", ["zero", "full", "null"])
    def test_a_device_in_a_files_place_is_refused(place, device, capfd):
        for name in ("d.safetensors", "d.npz", "d.mat"):
            Path(name).symlink_to(f"/dev/{device}")
        with within(30):
            for line in (
                "inspect d.safetensors",
                "inspect d.npz",
                "convert d.mat x.npy",
                "encode d.safetensors a.store -o x.npz",
            ):
                assert typed(line, capfd)[0] == FormatError.exit_code

    def test_pipes_and_loops_among_the_pictures_are_set_aside(place):
        os.mkfifo(place.images / "brick" / "pipe.png")
        (place.images / "brick" / "zero.png").symlink_to("/dev/zero")
        (place.images / "grass" / "again").symlink_to(place.images, target_is_directory=True)
        (place.images / "grass" / "self.png").symlink_to(place.images / "grass" / "self.png")
        with within(30):
            assert main(["extract", "images", "-o", "x.store", "-q"]) == 0
        store = bs.Store("x.store")
        assert store.n_usable >= 10
        reasons = dict(store.set_aside)
        assert reasons["brick/pipe.png"] == reasons["brick/zero.png"] == "not a regular file"
        assert "grass/self.png" in reasons

    @pytest.mark.parametrize(
        "line",
        [
            "prune book.safetensors a.store --keep 3 --method annealing --steps 9 -o x.safetensors",
            "train a.store --words 4 -o x.safetensors",
            "convert book.safetensors x.yml",
            "encode book.safetensors a.store -o x.npz",
            "fit book.safetensors a.store --C 1 -o x.safetensors",
        ],
    )
    def test_a_full_disk_is_told_as_such_and_leaves_no_output(place, line, capfd):
        with no_file_larger_than(100):
            code, said = typed(line, capfd)
        assert code == SpaceError.exit_code
        assert "the disk is full" in said
        assert not [p for p in Path().glob("x.*") if p.suffix in (".safetensors", ".npz", ".h")]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("convert words.npy words.npy", "words.npy is the input itself (words.npy)"),
        ("convert words.npy link.npy", "link.npy is the input itself (words.npy)"),
        ("prune BOOK a.store --keep 3 -o link.safetensors", "is the codebook itself (BOOK)"),
        ("encode words.npz a.store -o words.npz", "is the codebook itself (words.npz)"),
        ("export words.h -o words.h", "words.h is the codebook itself (words.h)"),
        (
            "export BOOK --classifier words.onnx -o words.onnx",
            "words.onnx is the classifier itself (words.onnx)",
        ),
    ],
)
def test_an_output_that_is_an_input_is_refused_and_stays(place, line, told, capfd):
    book = Path("book.safetensors")
    for end in ("npy", "npz", "json"):
        bs.save(bs.load(book), f"words.{end}")
    for end in ("h", "onnx"):  # a name decides nothing
        shutil.copy(book, f"words.{end}")
    os.link("words.npy", "link.npy")
    os.link(book, "link.safetensors")
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    code, said = typed(line.replace("BOOK", book.name), capfd)
    assert code == ParameterError.exit_code
    assert f"{told.replace('BOOK', book.name)}, which would be lost. Choose another output." in said
    assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before


def test_a_file_in_place_of_a_run_is_refused_and_stays(place, capfd):
    book = Path("book.safetensors")
    before = book.read_bytes()
    code, said = typed(f"evaluate a.store --codebook {book} -o {book}", capfd)
    assert code == ParameterError.exit_code
    assert "is a file. Name a folder." in said
    assert book.read_bytes() == before


# -- no permission (told by the system; whoever tests may be allowed everything) -------------------


def test_a_store_that_may_not_be_read_is_told_with_a_remedy(place, monkeypatch, capfd):
    stat = os.stat

    def closed(path, *args, **options):
        if str(path).endswith("catalog.sqlite"):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *args, **options)

    monkeypatch.setattr(os, "stat", closed)
    for line in ("inspect a.store", "train a.store -o x.safetensors"):
        code, said = typed(line, capfd)
        assert code == StoreError.exit_code
        assert "may not be read" in said
        assert "Ask for permission" in said
