"""Things that are no files, outputs that are inputs, false claims, and full disks."""

import io
import os
import shutil
import signal
import struct
import sys
import tracemalloc
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
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
    message = capfd.readouterr().err
    assert message.startswith("bowsaw: ") == (code != 0)
    assert "\n" not in message.rstrip("\n")
    return code, message


if sys.platform != "win32":
    from tests.cli.terminal import no_file_larger_than

    @pytest.mark.parametrize(
        "line",
        [
            "inspect pipe.safetensors",
            "encode book.safetensors pipes.store -o x.npz",
            "convert pipe.mat x.npy",
            "predict book.safetensors images/brick/000.png --classifier pipe.safetensors",
            "report pipes",
            "evaluate a.store --words 4 --splits 1 -o pipe.json",
            "extract pipe -o x.store",
            "extract images -o pipe",
        ],
    )
    def test_a_pipe_in_a_files_place_is_refused_without_waiting(place, line, capfd):
        for folder in ("pipes.store", "pipes"):
            Path(folder).mkdir()
        files = "pipe.safetensors pipe.mat pipe.json pipe pipes.store/catalog.sqlite pipes/run.json"
        for name in files.split():
            os.mkfifo(name)
        with within(30):
            code, _ = typed(line, capfd)
        assert 2 <= code <= 9

    def test_devices_pipes_and_loops_are_refused_or_set_aside(place, capfd):
        for device in ("zero", "full", "null"):
            for name in ("safetensors", "npz", "mat"):
                Path(f"{device}.{name}").symlink_to(f"/dev/{device}")
            lines = (
                "inspect {}.npz",
                "convert {}.mat x.npy",
                "encode {}.safetensors a.store -o x.npz",
            )
            with within(30):
                for line in lines:
                    assert typed(line.format(device), capfd)[0] == FormatError.exit_code
        os.mkfifo(place.images / "brick" / "pipe.png")
        (place.images / "brick" / "zero.png").symlink_to("/dev/zero")
        (place.images / "grass" / "again").symlink_to(place.images, target_is_directory=True)
        (place.images / "grass" / "self.png").symlink_to(place.images / "grass" / "self.png")
        with within(30):
            assert typed("extract images -o x.store", capfd)[0] == 0
        store = bs.Store("x.store")
        assert store.n_usable >= 10
        reasons = dict(store.set_aside)
        assert reasons["brick/pipe.png"] == reasons["brick/zero.png"] == "not a regular file"
        assert "grass/self.png" in reasons

    @pytest.mark.parametrize(
        "line",
        [
            "prune book.safetensors a.store --keep 3 --method random --part all -o x.safetensors",
            "convert book.safetensors x.yml",
            "encode book.safetensors a.store -o x.npz",
            "fit book.safetensors a.store --C 1 -o x.safetensors",
        ],
    )
    def test_a_full_disk_is_reported_as_such_and_leaves_no_output(place, line, capfd):
        with no_file_larger_than(100):
            code, message = typed(line, capfd)
        assert code == SpaceError.exit_code
        assert "the disk is full" in message
        assert not [p for p in Path().glob("x.*") if p.suffix in (".safetensors", ".npz", ".h")]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("convert words.npy link.npy", "link.npy is the input itself (words.npy)"),
        (
            "prune words.yml a.store --keep 3 -o link.safetensors",
            "is the codebook itself (words.yml)",
        ),
        ("encode words.npz a.store -o words.npz", "is the codebook itself (words.npz)"),
        ("evaluate a.store --codebook words.json -o words.json", "the output words.json is a file"),
        ("export words.h -o words.h", "words.h is the codebook itself (words.h)"),
        (
            "export words.h --classifier words.onnx -o words.onnx",
            "is the classifier itself (words.onnx",
        ),
    ],
)
def test_an_output_that_is_an_input_is_refused_and_stays(place, line, reason, capfd):
    for end in ("npy", "npz", "json"):
        bs.save(bs.load(place.book), f"words.{end}")
    for end in ("h", "onnx", "yml"):  # a name decides nothing
        shutil.copy(place.book, f"words.{end}")
    os.link("words.npy", "link.npy")
    os.link("words.yml", "link.safetensors")
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    code, message = typed(line, capfd)
    assert code == ParameterError.exit_code
    assert reason in message
    assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before


def test_a_store_that_may_not_be_read_is_reported_with_a_remedy(place, monkeypatch, capfd):
    stat = os.stat

    def closed(path, *args, **options):
        if str(path).endswith("catalog.sqlite"):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *args, **options)

    monkeypatch.setattr(os, "stat", closed)
    for line in ("inspect a.store", "train a.store -o x.safetensors"):
        code, message = typed(line, capfd)
        assert code == StoreError.exit_code
        assert "may not be read" in message
        assert "Ask for permission" in message


def npy(shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + bytes(64)


def zipped(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


CLAIMS = {
    "b.npy": npy((1 << 40, 128)),
    "b.npz": zipped("words.npy", npy((1 << 40, 128))),
    "b.skops": zipped("schema.json", b" " * 30_000_000),
    "b.faiss": b"IxF2" + struct.pack("<iqqqBi", 128, 1 << 40, 1 << 20, 1 << 20, 1, 1),
    "b.yml": b"%YAML:1.0\n---\nw: !!opencv-matrix\n   rows: 999999999\n   cols: 999999\n"
    b"   dt: f\n   data: [ 1. ]\n",
    "b.safetensors": struct.pack("<Q", 1 << 40) + b"{}",
    "c.safetensors": struct.pack("<Q", 66)
    + b'{"w":{"dtype":"F32","shape":[999999,9999],"data_offsets":[0,8]}}  ',
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_beyond_the_file_is_refused_before_anything_is_reserved(tmp_path, name):
    (tmp_path / name).write_bytes(CLAIMS[name])
    tracemalloc.start()
    try:
        with pytest.raises(FormatError):
            bs.load(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
