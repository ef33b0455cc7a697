"""A header has the size before decoding, and whether all data are there."""

import io
import struct

import cv2
import numpy as np
import pytest
from PIL import Image

from bowsaw.errors import ImageError
from bowsaw.images.decode import read_image
from bowsaw.images.headers import read_header

RANDOM = np.random.default_rng(1)
COLOURS = cv2.resize(RANDOM.integers(0, 256, (5, 7, 3), dtype=np.uint8), (31, 22))
RGB = Image.fromarray(COLOURS)


def encode(image, form, **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def by_opencv(suffix, values=COLOURS):
    return cv2.imencode(suffix, values)[1].tobytes()


def run_length_bmp():
    """Return an 8-bit BMP of runs of one pixel, which neither Pillow nor OpenCV writes."""
    height, width = COLOURS.shape[:2]
    rows = [b"".join(bytes([1, v]) for v in row) for row in COLOURS[::-1, :, 0].tolist()]
    body = b"\0\0".join(rows) + b"\0\1"
    palette = b"".join(bytes([level, level, level, 0]) for level in range(256))
    start = 14 + 40 + len(palette)
    sizes = struct.pack("<IHHI", start + len(body), 0, 0, start)
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, 1, len(body), 0, 0, 256, 0)
    return b"BM" + sizes + header + palette + body


FILES = {
    "jpeg": encode(RGB, "JPEG"),
    "jpeg grey": encode(RGB.convert("L"), "JPEG"),
    "jpeg cmyk": encode(RGB.convert("CMYK"), "JPEG"),
    "jpeg progressive": encode(RGB, "JPEG", progressive=True),
    "jpeg restarts": encode(RGB, "JPEG", restart_marker_blocks=1),
    "png": encode(RGB, "PNG"),
    "png palette": encode(RGB.quantize(16), "PNG"),
    "png 16": by_opencv(".png", COLOURS.astype(np.uint16) * 257),
    "gif": encode(RGB.quantize(16), "GIF"),
    "gif animated": encode(RGB, "GIF", save_all=True, append_images=[RGB.rotate(180)]),
    "bmp": encode(RGB, "BMP"),
    "bmp runs": run_length_bmp(),
    "tiff": encode(RGB, "TIFF"),
    "tiff float": by_opencv(".tiff", (COLOURS / 255).astype(np.float32)),
    "bigtiff": encode(RGB, "TIFF", big_tiff=True),
    "webp": encode(RGB, "WEBP"),
    "webp lossless": encode(RGB, "WEBP", lossless=True),
    "webp exif": encode(RGB, "WEBP", exif=b"Exif\0\0II*\0"),
}


def cuts(data):
    """Return lengths to cut a file to: every tenth byte, and each of the last sixteen."""
    return [*range(0, len(data), 10), *range(max(0, len(data) - 16), len(data))]


@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
def test_cut_and_longer_files_are_never_read_wrongly(data):
    whole = read_image(data).grey
    refused = 0
    for length in cuts(data):
        try:
            grey = read_image(data[:length]).grey
        except ImageError:
            refused += 1
        else:
            np.testing.assert_array_equal(grey, whole)
    assert refused > 0.95 * len(cuts(data))
    longer = data + b"\nA preview, or a note of the camera. \xff\xd8\xff\xe0"
    np.testing.assert_array_equal(read_image(longer).grey, whole)


@pytest.mark.parametrize("kind", ["jpeg progressive", "png", "gif animated", "webp exif"])
def test_a_cut_is_called_truncated(kind):
    data = FILES[kind]
    for length in range(len(data) // 2, len(data)):
        with pytest.raises(ImageError, match="truncated"):
            read_image(data[:length])


def test_the_end_of_a_thumbnail_is_not_the_end_of_its_jpeg():
    thumbnail, jpeg = encode(RGB.resize((8, 8)), "JPEG"), FILES["jpeg"]
    segment = b"\xff\xe1" + struct.pack(">H", len(thumbnail) + 2) + thumbnail
    data = jpeg[:2] + segment + jpeg[2:]
    header = read_header(data)
    assert (header.width, header.height, header.complete) == (31, 22, True)
    for length in range(len(thumbnail), len(data), 10):
        with pytest.raises(ImageError, match="truncated"):
            read_image(data[:length])
    with pytest.raises(ImageError, match="truncated"):
        read_image(b"\xff\xd8\xff\xd9" + bytes(100))
    with pytest.raises(ImageError, match="makes no sense"):
        read_image(b"GIF89a" + bytes(7) + b";")


def test_damaged_png_is_noticed(capfd):
    data = bytearray(FILES["png"])
    for at in range(16, len(data) - 12, 7):
        data[at] ^= 1
        with pytest.raises(ImageError, match=r"checksum|truncated|limit"):
            read_image(bytes(data))
        data[at] ^= 1
    assert capfd.readouterr().err == ""


def claim(form, true, false):
    return struct.pack(form, *true), struct.pack(form, *false)


CLAIMS = {
    "jpeg": [claim(">HH", (22, 31), (65_000, 65_000))],
    "gif": [claim("<HH", (31, 22), (65_000, 65_000))],
    "bmp": [claim("<II", (31, 22), (100_000, 100_000))],
    "tiff": [
        claim("<HHII", (tag, 4, 1, side), (tag, 4, 1, 100_000))
        for tag, side in ((256, 31), (257, 22))
    ],
    "webp exif": [(bytes([30, 0, 0, 21, 0, 0]), b"\xff\xff\0" * 2)],
}
"""How to make each small file claim to be huge; a PNG, which has checksums, is built elsewhere."""


@pytest.mark.parametrize("kind", CLAIMS)
def test_a_small_file_that_claims_to_be_huge_is_refused(kind, monkeypatch):
    monkeypatch.setattr(cv2, "imdecode", lambda *_: pytest.fail("decoded"))
    data = FILES[kind]
    for true, claimed in CLAIMS[kind]:
        assert true in data
        data = data.replace(true, claimed, 1)
    with pytest.raises(ImageError, match="pixels, more than the limit of 100,000,000"):
        read_image(data)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(50), "a JPEG 2000 file"),
        (b"\xff\x4f\xff\x51" + bytes(50), "a JPEG 2000 file"),
        (b"\0\0\0\x1cftypavif" + bytes(50), "an AVIF or HEIF file"),
        (b"\0\0\0\x18ftypheic" + bytes(50), "an AVIF or HEIF file"),
        (b"P5 3 2 255 " + bytes(6), "a Netpbm file"),
        (b"P7\nWIDTH 2\n", "a Netpbm file"),
        (b"#?RADIANCE\n", "a Radiance HDR file"),
        (b"\x59\xa6\x6a\x95" + bytes(28), "a Sun raster file"),
        (b"\x76\x2f\x31\x01" + bytes(28), "an OpenEXR file"),
    ],
)
def test_other_formats_are_refused_by_name(data, name, monkeypatch):
    monkeypatch.setattr(cv2, "imdecode", lambda *_: pytest.fail("decoded"))
    with pytest.raises(ImageError, match=f"{name}, which is not read; convert it to PNG or JPEG"):
        read_image(data)
