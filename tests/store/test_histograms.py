import errno
import io
import json
import pickle
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

from bowsaw import checkpoint
from bowsaw.errors import FormatError, MismatchError, SpaceError
from bowsaw.store.histograms import FIELDS, HistogramWriter, read_histograms

ROWS = np.random.default_rng(0).random((7, 5)).astype(np.float32)
ABOUT = {
    "y": [0, 0, 1, 1, 1, 0, 1],
    "classes": ["Küche", "open country"],
    "paths": [f"a/{i}.png" for i in range(6)] + ["☃.png"],
    "words": [4, 8, 2, 1, 0],
    "metadata": {"coding": "hard", "split": {"seed": 0}},
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "histograms.npz"


def write(path, rows=ROWS, about=ABOUT, fingerprint="a", chunk=2, stop_at=None, **options):
    """Write rows chunk by chunk as ``bowsaw encode`` does; stop before a row to leave a half."""
    writer = HistogramWriter(path, rows.shape, {"name": fingerprint}, **options)
    n_before = writer.n_done
    for start in range(writer.n_done, len(rows), chunk):
        if stop_at is not None and start >= stop_at:
            # What an interrupted chunk may have written is not vouched for.
            writer.rows[start:] = 99
            return n_before
        writer.rows[start : start + chunk] = rows[start : start + chunk]
        writer.mark_done(min(start + chunk, len(rows)))
    writer.finish(**about)
    return n_before


def names(path):
    return sorted(p.name for p in path.parent.iterdir())


def test_what_was_written_is_read(path):
    write(path)
    found = read_histograms(path)
    np.testing.assert_array_equal(found.histograms, ROWS)
    assert found.histograms.dtype == np.float32
    assert (found.y.tolist(), found.words.tolist()) == (ABOUT["y"], ABOUT["words"])
    assert (found.classes, found.paths) == (tuple(ABOUT["classes"]), tuple(ABOUT["paths"]))
    assert found.metadata == ABOUT["metadata"]
    assert names(path) == ["histograms.npz"]
    with np.load(path, allow_pickle=False) as file:
        assert set(file.files) == set(FIELDS)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (np.int64(2), 4)])
def test_any_shape_can_be_written(path, shape):
    about = {"y": [0] * shape[0], "classes": ["a"], "paths": ["p"] * shape[0], "metadata": {}}
    write(path, np.ones(shape, np.float32), about | {"words": range(shape[1])})
    np.testing.assert_array_equal(read_histograms(path).histograms, np.ones(shape))


@pytest.mark.parametrize("stop_at", [2, 6])
def test_an_interrupted_run_continues_to_the_same_bytes(path, tmp_path, stop_at):
    whole = tmp_path / "whole.npz"
    write(whole, chunk=3, fingerprint="b")
    write(path, stop_at=stop_at)
    assert not path.exists()
    assert write(path) == stop_at
    assert path.read_bytes() == whole.read_bytes()
    assert names(path) == ["histograms.npz", "whole.npz"]


@pytest.mark.parametrize("other", ["fingerprint", "shape"])
def test_rows_of_another_run_are_refused_and_kept_unless_overwritten(path, other):
    # A second run began, wrote rows of its own and was killed before its first note: the note of
    # the first run, still there, let a third run with its fingerprint continue the wrong rows.
    write(path, stop_at=4)
    if other == "shape":
        write(path, np.ones((7, 6), np.float32), stop_at=0, overwrite=True)
    else:
        write(path, ROWS[::-1].copy(), fingerprint="b", stop_at=0, overwrite=True)
    before = {p.name: p.read_bytes() for p in path.parent.iterdir()}
    with pytest.raises(MismatchError, match=r"of other work: its (name|shape) was"):
        write(path)
    assert {p.name: p.read_bytes() for p in path.parent.iterdir()} == before
    assert write(path, overwrite=True) == 0
    np.testing.assert_array_equal(read_histograms(path).histograms, ROWS)
    assert names(path) == ["histograms.npz"]


def test_a_note_with_an_impossible_number_is_refused(path):
    for done in (8, -1, "x", None):
        with HistogramWriter(path, ROWS.shape, {"name": "a"}, overwrite=True) as writer:
            writer._note.save({"done": done})
        with pytest.raises(FormatError, match="impossible number of rows"):
            write(path)


def test_rows_without_a_note_are_not_ours(path):
    foreign = path.with_name(path.name + ".partial.npy")
    np.save(foreign, np.ones(3))
    before = foreign.read_bytes()
    for overwrite in (False, True):
        with pytest.raises(FormatError, match="has no checkpoint beside it"):
            write(path, overwrite=overwrite)
    assert foreign.read_bytes() == before
    assert names(path) == ["histograms.npz.partial.npy"]


def test_rows_that_cannot_be_read_are_not_used(path):
    rows = path.with_name(path.name + ".partial.npy")
    for spoil in (
        rows.unlink,
        lambda: np.save(rows, np.ones((7, 5))),
        lambda: rows.write_bytes(rows.read_bytes()[:150]),
    ):
        write(path, stop_at=4)
        spoil()
        assert write(path) == 0
        np.testing.assert_array_equal(read_histograms(path).histograms, ROWS)


if sys.platform != "win32":
    from tests.cli.terminal import no_file_larger_than

    def test_a_disk_too_full_for_the_rows_is_reported_at_once(path):
        with (
            no_file_larger_than(2**20),
            pytest.raises(SpaceError, match=r"disk is full while writing .*histograms\.npz"),
        ):
            HistogramWriter(path, (1000, 1000), {"name": "a"})
        assert names(path) == []
        assert write(path) == 0


def test_a_disk_that_fills_up_at_the_end_keeps_the_rows(path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "no space")

    writer = HistogramWriter(path, ROWS.shape, {"name": "a"})
    writer.rows[:] = ROWS
    writer.mark_done(7)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.os, "fsync", full)
        with pytest.raises(SpaceError):
            writer.finish(**ABOUT)
    del writer
    assert not path.exists()
    assert write(path) == 7
    np.testing.assert_array_equal(read_histograms(path).histograms, ROWS)


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("histograms were unpickled",))


def test_other_files_are_refused_and_nothing_is_unpickled(path, tmp_path):
    for missing in (tmp_path / "no.npz", tmp_path):
        with pytest.raises(FormatError, match=r"is not a file\. Make histograms with"):
            read_histograms(missing)
    for content in (b"", b"PK\x05\x06" + bytes(18), pickle.dumps(Trap())):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=r"cannot be read as histograms: .*`bowsaw encode`"):
            read_histograms(path)
    for name in FIELDS:
        with pytest.raises(FormatError):
            read_changed(path, {name: np.array([Trap()] * 7, dtype=object)}, allow_pickle=True)


def read_changed(path, arrays, *, allow_pickle=False):
    """Read a good file in which some arrays are others."""
    good = {name: np.array(value) for name, value in ABOUT.items() if name != "metadata"}
    good |= {"histograms": ROWS, "metadata": np.array(json.dumps(ABOUT["metadata"]))}
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in (good | arrays).items():
            if array is not None:
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, np.asarray(array), allow_pickle=allow_pickle)
    return read_histograms(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": None}, "it has no y"),
        ({"histograms": ROWS[:6]}, "disagree in length"),
        ({"histograms": ROWS[0]}, "histograms is float32 of shape"),
        ({"histograms": ROWS.astype(np.float64)}, "histograms is float64"),
        ({"y": np.zeros(7)}, "y is float64"),
        ({"y": np.full(7, 2)}, "y has a class that does not exist"),
        ({"y": np.full(7, -1)}, "y has a class that does not exist"),
        ({"classes": np.arange(2)}, "classes is int64"),
        ({"paths": np.array(["a"])}, "disagree in length"),
        ({"metadata": np.array("{")}, "cannot be read"),
        ({"metadata": np.array("[" * 50_000)}, "cannot be read"),
        ({"metadata": np.array(["{}"])}, "metadata is <U2 of shape"),
    ],
)
def test_wrong_content_is_refused(path, arrays, message):
    with pytest.raises(FormatError, match=message):
        read_changed(path, arrays)


@pytest.mark.parametrize(
    ("name", "claim"),
    [("histograms", ("<f4", (14, 5))), ("y", ("<i8", (7 * 10**9,))), ("metadata", ("<U99", ()))],
)
def test_a_header_that_asks_for_more_than_the_file_has_is_refused(path, name, claim):
    write(path)
    with zipfile.ZipFile(path) as archive:
        members = {entry: archive.read(entry) for entry in archive.namelist()}
    head = io.BytesIO()
    about = {"descr": claim[0], "shape": claim[1], "fortran_order": False}
    np.lib.format.write_array_header_1_0(head, about)
    members[f"{name}.npy"] = head.getvalue() + members[f"{name}.npy"][128:]
    with zipfile.ZipFile(path, "w") as archive:
        for entry, member in members.items():
            archive.writestr(entry, member)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="bytes after its header do not have"):
            read_histograms(path)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
