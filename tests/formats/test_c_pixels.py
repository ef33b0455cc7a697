"""From pixels to a class in C: as the definition says, on odd images, and on other processors."""

import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.contracts import dense_sift as contract
from tests.formats.c_compiler import PIXELS, compiled, compiler_of, describe, pointer, recognise
from tests.formats.cross_compilers import PROCESSORS, is_required, missing

import bowsaw as bs
from bowsaw.formats.c_header import quantize_words, write_c_header
from bowsaw.formats.classifier import LinearModel

TOP = Path(__file__).resolve().parents[2]
BAD, SMALL, LARGE = -1, -2, -3
"""The errors of the header."""
needs_compiler = pytest.mark.skipif(compiler_of() is None, reason="there is no C compiler")


def words_of(sift, n=3, **more):
    rng = np.random.default_rng(0)
    words = rng.integers(0, 120, (n, 128)) / (1 if sift.scale == 512 else 512)
    return bs.Codebook(words, scale=sift.scale, description=sift.description(), **more)


@pytest.fixture
def library_of(tmp_path):
    def build(sift, *flags):
        write_c_header(words_of(sift), tmp_path / "words.h")
        return compiled(tmp_path, PIXELS, *flags)

    return build


@pytest.fixture(scope="module")
def recogniser(scenes):
    """Coders, hard and soft, and the models of their classes; some images."""
    folder = bs.ImageFolder(scenes)
    chosen = np.arange(0, len(folder), 9)
    bags, y = bs.DenseSift().transform(folder[chosen]), np.array(folder.classes)[folder.y[chosen]]
    book = bs.KMeansCodebook(25, max_iter=3, random_state=0).fit(bags).codebook_
    made = {}
    for coding in ("hard", "soft"):
        coder = bs.BagOfWords(book, coding=coding)
        made[coding] = LinearModel.of(
            bs.HistogramClassifier(C=4.0).fit(coder.transform(bags), y), coder
        )
    images = [bs.DenseSift().load(path).grey for path in np.array(folder.paths)[chosen]]
    return book, made, images


QUICK = contract.PARAMETERS[:1]


@needs_compiler
@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param(p, marks=() if p in QUICK else pytest.mark.slow, id=str(p))
        for p in contract.PARAMETERS
    ],
)
def test_descriptors_are_those_of_the_definition(library_of, parameters):
    library = library_of(bs.DenseSift(**parameters, max_side=contract.MAX_SIDE))

    def answer(grey):
        found = describe(library, grey)
        if isinstance(found, int):
            assert found == SMALL
            return None
        assert np.array_equal(found, describe(library, grey, stride=grey.shape[1] + 5))
        return found

    contract.assert_agrees(answer, **parameters)


@needs_compiler
def test_images_are_reduced_exactly(library_of):
    library = library_of(bs.DenseSift(max_side=contract.MAX_SIDE))
    for name, grey in contract.LARGE.items():
        reduced, found = contract.reduced(name), describe(library, grey)
        if min(reduced.shape) < 16:
            assert found == SMALL
            continue
        assert np.abs(found.astype(int) - bs.DenseSift().describe(reduced)[0]).max() <= 1
        out = np.empty(reduced.shape[1], np.uint8)
        size = grey.shape[::-1]
        # The last rows, which are still in the memory.
        for y in range(len(reduced) - 2, len(reduced)):
            library.line(pointer(np.ascontiguousarray(grey)), *size, y, pointer(out))
            assert np.array_equal(out, reduced[y])


@needs_compiler
def test_float_descriptors_and_images_that_are_not_reduced(library_of):
    sift = bs.DenseSift(patch=8, step=6, max_side=None, dtype="float32")
    library = library_of(sift, "-DBOWSAW_MAX_SIDE=80")
    grey = contract.IMAGES["noise"]
    found = describe(library, grey, dtype=np.float32)
    np.testing.assert_allclose(found, sift.describe(grey)[0], atol=1e-5)
    assert describe(library, np.zeros((10, 81), np.uint8)) == LARGE
    assert describe(library, np.zeros((81, 10), np.uint8)) == LARGE
    assert describe(library, np.zeros((80, 7), np.uint8)) == SMALL


@needs_compiler
def test_what_is_no_image_is_refused(library_of):
    library, one = library_of(bs.DenseSift()), pointer(np.zeros(1, np.uint8))
    for arguments in ((None, 20, 20, 20), (one, 0, 20, 20), (one, 20, 0, 20), (one, -5, 20, 20)):
        assert library.describe(*arguments, one) == BAD
    assert library.describe(one, 20, 20, 19, one) == BAD
    assert library.describe(one, 16_000_001, 20, 16_000_001, one) == LARGE


@needs_compiler
@pytest.mark.parametrize(
    ("coding", "words"),
    [("hard", "float32"), ("hard", "uint8"), ("soft", "float32"), ("soft", "int8")],
)
def test_classes_are_those_of_python(tmp_path, recogniser, coding, words):
    book, models, images = recogniser
    model = models[coding]
    write_c_header(book, tmp_path / "words.h", model, words=words)
    library = compiled(tmp_path, PIXELS)
    if words != "float32":
        moved = quantize_words(book.words, words, "uint8").restored()
        book = bs.Codebook(moved, scale=512, description=book.description)
    coder = bs.BagOfWords(book, coding=coding)
    expected = coder.transform(bs.DenseSift().transform(images))
    scores = model.scores(expected)
    for i, grey in enumerate(images):
        label, found, histogram = recognise(library, grey, len(model.classes), 25)
        # A descriptor's byte may differ, and with it a code of some dozens.
        assert np.abs(histogram - expected[i]).sum() <= (0.05 if coding == "hard" else 1e-3)
        np.testing.assert_allclose(found, scores[i], atol=0.05)
        margin = np.ptp(np.sort(scores[i])[-2:])
        assert label == np.argmax(scores[i]) or margin <= 2 * np.abs(found - scores[i]).max()


def n_bytes(text):
    """The bytes of a header's tables."""
    sizes = {"float": 4, "uint16_t": 2, "int16_t": 2, "uint8_t": 1, "int8_t": 1, "int32_t": 4}
    tables = re.findall(r"static const (\w+) \w+((?:\[\d+\])+) =", text)
    return sum(sizes[kind] * np.prod([int(n) for n in re.findall(r"\d+", n)]) for kind, n in tables)


def test_fifty_words_and_fifteen_classes_fit_into_sixteen_kilobytes(tmp_path):
    rng, sift = np.random.default_rng(0), bs.DenseSift()
    y = np.arange(60) % 15
    known = bs.Projection(rng.random(128) * 60, rng.normal(size=(128, 16)) / 11, 512)
    small = bs.Codebook(
        rng.normal(size=(50, 16)) * 90, scale=512, description=sift.description(), projection=known
    )
    for book, most in ((words_of(sift, 50), 16_000), (small, 6_000)):
        model = LinearModel.of(bs.HistogramClassifier(C=1.0).fit(rng.random((60, 50)), y), book)
        write_c_header(book, tmp_path / "words.h", model, words="uint8")
        text = (tmp_path / "words.h").read_text()
        assert set(re.findall("#include (.*)", text)) == {"<math.h>", "<stdint.h>", "<string.h>"}
        assert "alloc" not in text
        assert n_bytes(text) <= most
        library = compiled(tmp_path, PIXELS)
        if library is not None:
            library.scratch_bytes.restype = ctypes.c_size_t
            assert library.scratch_bytes() <= 512_000


ODD = """
#include <stdio.h>
#include <stdlib.h>
#include "words.h"
static bowsaw_scratch scratch;
static const int sides[] = {1, 2, 3, 15, 16, 17, 22, 23, 24, 25, 31, 40, 299, 300, 301, 640, 10000};
int main(void)
{
    enum { N = sizeof sides / sizeof *sides };
    float scores[BOWSAW_N_CLASSES];
    int counts[4] = {0, 0, 0, 0}, i, j, more;
    size_t k, n;
    for (i = 0; i < N; ++i)
        for (j = 0; j < N; ++j)
            for (more = 0; more < 6; more += 5) {
                const size_t stride = (size_t)sides[i] + (size_t)more;
                uint8_t *grey;
                int32_t found;
                if ((long)sides[i] * sides[j] > 500000)
                    continue;
                /* Exactly what the image takes: the last row has no padding. */
                n = stride * ((size_t)sides[j] - 1) + (size_t)sides[i];
                grey = malloc(n);
                if (grey == NULL)
                    return 1;
                for (k = 0; k < n; ++k)
                    grey[k] = (uint8_t)((k * 2654435761u) >> (i + j) % 24);
                found = bowsaw_recognise(grey, sides[i], sides[j], stride, &scratch, scores);
                ++counts[found < 0 ? -found : 0];
                free(grey);
            }
    printf("%d %d %d %d\\n", counts[0], counts[1], counts[2], counts[3]);
    return 0;
}
"""


def runs(folder, source, *flags, compiler=None):
    """Compile a program as strictly as users may, and return its path."""
    (folder / "it.c").write_text(source)
    strict = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
    command = [compiler or compiler_of(), *strict, *flags, "it.c", "-o", "it", "-lm"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return folder / "it"


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("coding", ["hard", "soft"])
@pytest.mark.parametrize("words", ["float32", "uint8"])
def test_odd_sizes_neither_crash_nor_read_beyond_the_image(tmp_path, recogniser, coding, words):
    book, models, _ = recogniser
    write_c_header(book, tmp_path / "words.h", models[coding], words=words)
    checks = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    program = runs(tmp_path, ODD, *checks)
    quick = runs(tmp_path, ODD, "-O3", *(() if os.name == "nt" else ("-o", "quick")))
    found = subprocess.run([program], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert quick.exists()
    n_usable, n_bad, n_small, n_large = map(int, found.stdout.split())
    assert n_usable > 100
    assert n_small > 100
    assert n_bad == n_large == 0


@pytest.mark.slow
@pytest.mark.skipif(missing() and not is_required(), reason="run `make compilers`")
@pytest.mark.parametrize("processor", PROCESSORS)
def test_the_example_gives_the_same_classes_on_other_processors(tmp_path, recogniser, processor):
    assert not missing(), f"missing: {missing()}; `make compilers` installs them"
    compiler, emulator = PROCESSORS[processor]
    book, models, images = recogniser
    source = (TOP / "examples" / "device" / "recognise.c").read_text()
    names = []
    for i, grey in enumerate([*images[:20], contract.LARGE["vga"], contract.LARGE["edges"]]):
        names.append(f"{i}.pgm")
        head = f"P5\n# an image\n{grey.shape[1]} {grey.shape[0]}\n255\n".encode()
        (tmp_path / names[-1]).write_bytes(head + grey.tobytes())
    for coding, words in (("hard", "uint8"), ("hard", "float32"), ("soft", "float32")):
        write_c_header(book, tmp_path / "recogniser.h", models[coding], words=words)
        found = {}
        for kind, how in (("x86", {}), (processor, {"compiler": compiler})):
            program = runs(tmp_path, source, "-O3", "-static", **how)
            call = [emulator, program] if how else [program]
            found[kind] = subprocess.run(
                [*call, *names], cwd=tmp_path, check=True, capture_output=True, text=True
            ).stdout.splitlines()
        assert len(found["x86"]) == len(names)
        split = {kind: [line[:-1].split(" (") for line in lines] for kind, lines in found.items()}
        assert [a for a, _ in split["x86"]] == [a for a, _ in split[processor]]
        numbers = [np.array([float(b) for _, b in lines]) for lines in split.values()]
        np.testing.assert_allclose(*numbers, atol=0.02)


@needs_compiler
def test_the_example_is_built_by_its_makefile(tmp_path, recogniser):
    book, models, images = recogniser
    for name in ("recognise.c", "Makefile"):
        shutil.copy(TOP / "examples" / "device" / name, tmp_path)
    assert len((tmp_path / "Makefile").read_text().splitlines()) == 5
    write_c_header(book, tmp_path / "recogniser.h", models["hard"])
    subprocess.run(["make", "-s"], cwd=tmp_path, check=True, capture_output=True, text=True)
    grey = images[0]
    image = b"P5 %d %d 255\n" % grey.shape[::-1] + grey.tobytes()
    (tmp_path / "good.pgm").write_bytes(image)
    for name, data in (("short.pgm", image[:-1]), ("text.pgm", b"hello"), ("empty.pgm", b"")):
        (tmp_path / name).write_bytes(data)
    names = ["good.pgm", "short.pgm", "text.pgm", "empty.pgm", "missing.pgm"]
    found = subprocess.run(
        ["./recognise", *names], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    lines = found.stdout.splitlines()
    coder = models["hard"].coder(book)
    label = models["hard"].predict(coder.transform(bs.DenseSift().transform([grey])))[0]
    assert lines[0].startswith(f"good.pgm: {label} (")
    assert [line.endswith(": not usable (-1)") for line in lines[1:]] == [True] * 4
    assert found.returncode == 1
