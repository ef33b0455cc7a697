import numpy as np

from examples import demo


def test_tiles_share_no_pixel():
    numbered = np.arange(500 * 741).reshape(500, 741)
    pixels = np.concatenate([tile.ravel() for tile in demo.cut(numbered)])
    assert len(np.unique(pixels)) == len(pixels) == demo.GRID**2 * demo.SIDE**2


def test_every_class_has_tiles_for_each_part(tmp_path):
    n_tiles = demo.write_images(tmp_path)
    counts = {folder.name: len(list(folder.iterdir())) for folder in tmp_path.iterdir()}
    assert counts.keys() == demo.CLASSES.keys()
    assert len(counts) >= 8
    assert sum(counts.values()) == n_tiles
    assert min(counts.values()) >= 20 > 0
    assert min(counts.values()) > int(demo.CODEBOOK) + int(demo.TRAIN)


def test_the_same_tiles_every_time(tmp_path):
    demo.write_images(tmp_path / "one")
    demo.write_images(tmp_path / "two")
    one, two = (
        [path.read_bytes() for path in sorted((tmp_path / name).rglob("*.png"))]
        for name in ("one", "two")
    )
    assert one == two
