"""Images are decoded as a viewer shows them; Pillow, another decoder, is the oracle."""

import io
import struct
import threading
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps, ImageSequence

from bowsaw.checkpoint import short_digest
from bowsaw.errors import DataError, ImageError
from bowsaw.images import decode
from bowsaw.images.decode import read_image

HEIGHT, WIDTH = 24, 40
RANDOM = np.random.default_rng(0)
NOISE = RANDOM.integers(0, 256, (6, 10, 3), dtype=np.uint8)
COLOURS = cv2.resize(NOISE, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
GREY = COLOURS[..., 0]
COVER = np.linspace(0, 255, WIDTH).round().astype(np.uint8) * np.ones((HEIGHT, 1), dtype=np.uint8)
RGB = Image.fromarray(COLOURS)
RGBA = Image.fromarray(np.dstack([COLOURS, COVER]))
LA = Image.merge("LA", (Image.fromarray(GREY), Image.fromarray(COVER)))


def encode(image, form, **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def luma(colours):
    return np.asarray(colours, dtype=np.float64) @ [0.299, 0.587, 0.114]


def over_white(rgba):
    """Return what a white page shows of an RGBA image, in floating point."""
    rgba = np.asarray(rgba.convert("RGBA"), dtype=np.float64)
    cover = rgba[..., 3] / 255
    return luma(rgba[..., :3]) * cover + 255 * (1 - cover)


def grey_of(data, **options):
    return read_image(data, max_side=None, **options).grey


def assert_near(grey, expected, tolerance=1.0):
    assert grey.dtype == np.uint8
    assert grey.flags.c_contiguous
    assert grey.shape == expected.shape
    np.testing.assert_allclose(grey, expected, atol=tolerance)


LOSSLESS = {"WEBP": {"lossless": True}}
MODES = [
    *((RGB, form) for form in ("PNG", "BMP", "TIFF", "GIF", "WEBP")),
    *((RGB.quantize(16), form) for form in ("PNG", "BMP", "TIFF", "GIF")),
    *((RGB.convert("1"), form) for form in ("PNG", "BMP", "TIFF")),
    *((RGB.convert("CMYK"), form) for form in ("JPEG", "TIFF")),
]


class TestFormats:
    def test_jpeg_and_floats_give_the_luma_that_they_store(self):
        data = encode(RGB, "JPEG", quality=90)
        stored = Image.open(io.BytesIO(data))
        stored.draft("L", None)
        np.testing.assert_array_equal(grey_of(data), np.asarray(stored))
        # A TIFF of floating-point numbers goes from 0 to 1.
        data = cv2.imencode(".tiff", (COLOURS[..., ::-1] / 255).astype(np.float32))[1].tobytes()
        assert_near(grey_of(data), luma(COLOURS), 2)

    @pytest.mark.parametrize(("image", "form"), MODES, ids=lambda v: getattr(v, "mode", v))
    def test_colour_palette_one_bit_and_cmyk(self, image, form):
        data = encode(image, form, **LOSSLESS.get(form, {}))
        assert_near(grey_of(data), luma(Image.open(io.BytesIO(data)).convert("RGB")), 2)

    @pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP", "TIFF"])
    def test_only_the_first_of_several_images_is_read(self, form):
        others = [Image.fromarray(np.roll(COLOURS, 5 * i, axis=1)) for i in (1, 2)]
        data = encode(RGB, form, save_all=True, append_images=others, **LOSSLESS.get(form, {}))
        opened = Image.open(io.BytesIO(data))
        frames = [frame.convert("RGB") for frame in ImageSequence.Iterator(opened)]
        assert len(frames) == 3
        assert_near(grey_of(data), luma(frames[0]), 2)


def retag(data, tag, old, new):
    """Return a TIFF in which the one value of a tag is another."""
    entry = struct.pack("<HHIHH", tag, 3, 1, old, 0)
    assert data.count(entry) == 1
    return data.replace(entry, struct.pack("<HHIHH", tag, 3, 1, new, 0))


class TestDepth:
    def test_16_bits_are_rounded_not_cut(self):
        values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
        expected = np.rint(values / 257)
        assert_near(grey_of(values), expected, 0)
        assert_near(grey_of(cv2.imencode(".png", values)[1].tobytes()), expected, 0)

    @pytest.mark.parametrize("suffix", [".png", ".tiff"])
    def test_16_bit_colour_with_and_without_alpha(self, suffix):
        deep = np.dstack([COLOURS[..., ::-1], COVER]).astype(np.uint16) * 257
        for channels, expected in ((3, luma(COLOURS)), (4, over_white(RGBA))):
            data = cv2.imencode(suffix, np.ascontiguousarray(deep[..., :channels]))[1].tobytes()
            assert_near(grey_of(data), expected, 2)

    def test_bmp_of_5_bits_per_colour(self):
        values = (np.arange(32, dtype=np.uint16) * 0x0421).astype("<u2")
        sizes = struct.pack("<IHHI", 54 + 64, 0, 0, 54)
        header = struct.pack("<IiiHHIIiiII", 40, 32, 1, 1, 16, 0, 64, 0, 0, 0, 0)
        expected = np.arange(32)[None] * 255 / 31
        assert_near(grey_of(b"BM" + sizes + header + values.tobytes()), expected)

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (cv2.imencode(".tiff", GREY.astype(np.float32) * 3)[1], "0 is black and 1 is white"),
            (cv2.imencode(".tiff", GREY.astype(np.int16) - 20)[1], "int16"),
            (np.frombuffer(encode(LA, "TIFF"), np.uint8), "second channel"),
        ],
    )
    def test_what_has_no_known_white_or_would_be_misread_is_refused(self, data, reason):
        with pytest.raises(ImageError, match=reason):
            read_image(data.tobytes())

    def test_tiff_of_16_bits_where_white_is_zero_or_in_separate_planes(self):
        data = encode(Image.fromarray(65535 - GREY.astype(np.uint16) * 257), "TIFF")
        np.testing.assert_array_equal(grey_of(retag(data, 262, 1, 0)), GREY)
        deep = cv2.imencode(".tiff", COLOURS.astype(np.uint16))[1].tobytes()
        with pytest.raises(ImageError, match="not interleaved RGB"):
            read_image(retag(deep, 284, 1, 2))


class TestTransparency:
    @pytest.mark.parametrize("form", ["PNG", "WEBP", "TIFF"])
    def test_shows_a_white_page(self, form):
        data = encode(RGBA, form, **LOSSLESS.get(form, {}))
        assert_near(grey_of(data), over_white(Image.open(io.BytesIO(data))), 2)

    @pytest.mark.parametrize("form", ["PNG", "GIF"])
    def test_palette_with_a_transparent_colour(self, form):
        data = encode(RGB.quantize(8), form, transparency=2)
        expected = over_white(Image.open(io.BytesIO(data)))
        assert (expected == 255).any()
        assert_near(grey_of(data), expected)

    @pytest.mark.parametrize("depth", [1, 2, 4, 8, 16])
    def test_grey_png_with_a_transparent_level(self, depth):
        # Pillow reads no tRNS of fewer than 8 bits, so the file is built and judged by hand.
        top = (1 << depth) - 1
        levels = np.rint(np.linspace(0, top, 16)).astype(int)
        row = int("".join(f"{level:0{depth}b}" for level in levels), 2).to_bytes(2 * depth, "big")
        data = png(16, 1, depth, row, [(b"tRNS", struct.pack(">H", levels[5]))])
        expected = np.where(levels == levels[5], 255, levels * 255 / top)[None]
        assert_near(grey_of(data), expected)

    def test_hidden_colours_do_not_shine_through(self):
        hidden = np.dstack([COLOURS, np.zeros_like(GREY)])
        for data in (encode(Image.fromarray(hidden), "PNG"), hidden):
            assert (grey_of(data) == 255).all()
        # The fourth channel of a TIFF may be no transparency.
        assert_near(grey_of(retag(encode(RGBA, "TIFF"), 338, 2, 0)), luma(COLOURS))


# Every orientation in one format, and one that turns and mirrors in the others.
@pytest.mark.parametrize(
    ("form", "orientation"),
    [*(("JPEG", i) for i in range(1, 9)), ("PNG", 5), ("WEBP", 7), ("TIFF", 6)],
)
def test_images_are_upright(form, orientation):
    exif = Image.Exif()
    exif[0x112] = orientation
    data = encode(RGB if form == "JPEG" else RGBA, form, exif=exif, quality=95)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    image = read_image(data, max_side=None)
    assert image.original_size == upright.size
    assert upright.size == ((WIDTH, HEIGHT) if orientation < 5 else (HEIGHT, WIDTH))
    assert_near(image.grey, over_white(upright), 4)


@pytest.mark.parametrize(
    ("size", "max_side", "expected"),
    [
        ((600, 400), 300, (300, 200)),
        ((300, 300), 300, (300, 300)),
        ((5000, 2), 300, (300, 1)),
        ((600, 400), None, (600, 400)),
        ((600, 400), 1, (1, 1)),
    ],
)
def test_longest_side(size, max_side, expected):
    image = read_image(np.zeros(size[::-1], dtype=np.uint8), max_side=max_side)
    assert image.grey.shape == expected[::-1]
    assert image.original_size == size


def test_shrinking_averages_areas():
    blocks = RANDOM.integers(0, 256, (20, 30), dtype=np.uint8)
    image = read_image(blocks.repeat(4, axis=0).repeat(4, axis=1), max_side=30)
    np.testing.assert_array_equal(image.grey, blocks)


class TestArrays:
    @pytest.mark.parametrize(
        ("dtype", "channels"), [("u1", 1), ("u1", 4), ("f4", 3), ("f8", 4), (">u2", 1), (">u2", 3)]
    )
    def test_types(self, dtype, channels):
        dtype = np.dtype(dtype)
        white = 1 if dtype.kind == "f" else np.iinfo(dtype).max
        full = np.dstack([COLOURS, COVER])
        scaled = (full / 255 * white).round(0 if white > 1 else 9).astype(dtype)
        array = scaled[..., 0] if channels == 1 else scaled[..., :channels]
        expected = {1: GREY, 3: luma(COLOURS), 4: over_white(RGBA)}[channels]
        assert_near(grey_of(array), expected, 2 if channels == 4 else 1)

    @pytest.mark.parametrize(
        ("array", "words"),
        [
            (np.zeros(5), r"shape \(5,\)"),
            (np.zeros((5, 5, 2)), r"shape \(5, 5, 2\)"),
            (np.zeros((0, 5)), "no pixels"),
            (np.zeros((5, 5), dtype=np.int64), "values of type int64"),
            (np.full((5, 5), -1.0), "values from -1 to -1"),
            (np.full((5, 5), np.nan), "values from nan to nan"),
        ],
    )
    def test_what_is_no_image(self, array, words):
        with pytest.raises(ImageError, match=words) as caught:
            read_image(array)
        assert caught.value.path == "<array>"

    def test_digest_names_values_shape_and_type(self):
        zeros = np.zeros((4, 6), dtype=np.uint8)
        others = [zeros + 1, zeros.reshape(6, 4), zeros.astype(bool), zeros.astype(float)]
        digests = {read_image(array).digest for array in [zeros, zeros.copy(), *others]}
        assert len(digests) == 5
        assert read_image(GREY.T).digest == read_image(GREY.T.copy()).digest


class TestFiles:
    def test_path_bytes_and_digest_agree(self, tmp_path):
        path = tmp_path / "an image – ü.png"
        data = encode(RGB, "PNG")
        path.write_bytes(data)
        for source in (path, str(path), np.str_(path)):
            image = read_image(source)
            assert (image.path, image.digest) == (str(path), short_digest(data))
            np.testing.assert_array_equal(image.grey, read_image(data).grey)
        assert read_image(data).path == "<bytes>"
        with pytest.raises(DataError, match=r"an image is a path.*got Image"):
            read_image(RGB)

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (None, "missing file"),
            (b"", "empty file"),
            (b"hello", "not an image"),
            (bytes(1000), "not an image"),
            (b"BM but a text", "not an image"),
        ],
    )
    def test_files_that_are_no_images(self, tmp_path, content, reason):
        path = tmp_path / "a.jpg"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ImageError, match=reason) as caught:
            read_image(path)
        assert caught.value.path == str(path)
        assert caught.value.reason.startswith(reason)

    def test_a_large_or_closed_file_is_refused_before_it_is_loaded(self, tmp_path, monkeypatch):
        film, image, bomb = (tmp_path / name for name in ("film.mp4", "image.png", "bomb.png"))
        for path, head in ((film, b"\0\0\0\x18ftypmp42"), (image, b"\x89PNG\r\n\x1a\n")):
            with path.open("wb") as file:
                file.write(head)
                file.truncate(80 << 20)
        bomb.write_bytes(png(100_000, 100_000, 8, bytes(1000)))
        monkeypatch.setattr(decode.cv2, "imdecode", lambda *_: pytest.fail("decoded"))
        with pytest.raises(ImageError, match="100000×100000 pixels, more than the limit"):
            read_image(bomb)
        monkeypatch.setattr(decode, "short_digest", lambda _: pytest.fail("the file was loaded"))
        with pytest.raises(ImageError, match="not an image"):
            read_image(film)
        with pytest.raises(ImageError, match=r"83,886,080 bytes, more than 1,000 pixels"):
            read_image(image, max_pixels=1000)

        def refuse(*_args, **_options):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(decode.Path, "open", refuse)
        with pytest.raises(ImageError, match="no permission to read it"):
            read_image(image)

    def test_opencv_is_quiet_about_bad_files_until_the_last_thread_is_done(self, capfd):
        before = cv2.utils.logging.getLogLevel()
        data = retag(encode(RGB, "TIFF"), 259, 1, 34925)  # LZMA
        assert cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED) is None
        assert capfd.readouterr().err != ""
        with decode._quiet:
            thread = threading.Thread(target=read_image, args=[encode(RGB, "PNG")])
            thread.start()
            thread.join()
            assert cv2.utils.logging.getLogLevel() == cv2.utils.logging.LOG_LEVEL_SILENT
        with pytest.raises(ImageError, match="a variant that OpenCV does not decode"):
            read_image(data)
        assert capfd.readouterr().err == ""
        assert cv2.utils.logging.getLogLevel() == before


def png(width, height, depth, row, chunks=()):
    """Return a grey PNG of one row's bytes, whatever its header claims."""
    header = struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0)
    pieces = [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(b"\0" + row)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in pieces
    )
