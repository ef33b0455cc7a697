"""In every locale the same bytes are written and every name is kept."""

import locale
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.cli.main import main

ENDS = ("npz", "npy", "yml", "xml", "json", "faiss", "mat", "safetensors")


def write_all(book: bs.Codebook, folder: Path) -> dict[str, bytes]:
    """Return the bytes of a codebook in every format whose writer is ours."""
    folder.mkdir()
    bs.formats.write_c_header(book, folder / "b.h")
    for end in ENDS:
        bs.save(book, folder / f"b.{end}")
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("name", ["de_DE.UTF-8", "tr_TR.UTF-8"])
def test_numbers_are_written_and_read_with_points(tmp_path, name):
    words = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32) * 1e-3
    book = bs.Codebook(words, scale=0.5, provenance={"İstanbul": 1.5})
    plain = write_all(book, tmp_path / "plain")
    before = locale.setlocale(locale.LC_ALL)
    try:
        with suppress(locale.Error):  # where the machine does not have it
            locale.setlocale(locale.LC_ALL, name)
        other = write_all(book, tmp_path / "other")
        del plain["b.mat"], other["b.mat"]  # whose header has the day and the second
        assert other == plain
        for end in ENDS:
            layout = {"layout": "columns"} if end == "mat" else {}
            assert np.array_equal(bs.load(tmp_path / "plain" / f"b.{end}", **layout).words, words)
        assert main(["convert", str(tmp_path / "plain/b.yml"), str(tmp_path / "x.npy"), "-q"]) == 0
    finally:
        locale.setlocale(locale.LC_ALL, before)


if sys.platform == "linux":

    @pytest.mark.slow
    def test_a_whole_session_in_another_locale_and_time_zone_gives_the_same_bytes(place):
        # A folder named in Latin-1, images whose names are no text at all: bytes are kept.
        odd = os.fsencode(place.images) + b"/caf\xe9"
        Path(os.fsdecode(odd)).mkdir()
        for i in range(5):
            source = place.images / "brick" / f"{i:03}.png"
            Path(os.fsdecode(odd + b"/\xff%d.png" % i)).write_bytes(source.read_bytes())
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG"))}
        there = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        for name, env in (("here", kept), ("there", kept | there | {"TZ": "Pacific/Kiritimati"})):
            for line in (
                f"extract images -o {name}.store",
                f"train {name}.store --words 8 -o {name}.safetensors",
                f"encode {name}.safetensors {name}.store -o {name}.npz",
            ):
                command = [sys.executable, "-m", "bowsaw", *line.split(), "-q", "-j", "1"]
                subprocess.run(command, env=env, check=True)
        for end in ("safetensors", "npz"):
            assert Path(f"here.{end}").read_bytes() == Path(f"there.{end}").read_bytes()
        assert bs.Store("here.store").paths == bs.Store("there.store").paths
