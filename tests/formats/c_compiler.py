"""Compiling exported headers, where there is a compiler, and what arrays need to be passed."""

import ctypes
import shutil
import subprocess

import numpy as np

STRICT = ("-O2", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wdouble-promotion", "-Werror")
COMPILERS = {"c": ("-std=c99", "cc", "gcc", "clang"), "cpp": ("-std=c++11", "c++", "g++")}


def compiler_of(language="c"):
    """The compiler of this machine, or None."""
    return next(filter(None, map(shutil.which, COMPILERS[language][1:])), None)


def compiled(folder, source, *flags, language="c"):
    """Build a library beside the header, or None where there is no compiler."""
    compiler = compiler_of(language)
    if compiler is None:
        return None
    (folder / f"it.{language}").write_text(source)
    target = folder / f"it{len(list(folder.iterdir()))}.so"
    options = [COMPILERS[language][0], *STRICT, *flags, "-shared", "-fPIC", "-o", target.name]
    command = [compiler, *options, f"it.{language}", "-lm"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return ctypes.CDLL(str(target))


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def result_of(function, rows, size, dtype=np.float32):
    """Call a function of rows, their number, and the array of the result."""
    out = np.full(size, 99, dtype)
    rows = np.ascontiguousarray(rows)
    function(pointer(rows), ctypes.c_size_t(len(rows)), pointer(out))
    return out


PIXELS = """
#include "words.h"
static bowsaw_scratch scratch;
static bowsaw_input *target;
static void copy(void *whom, const bowsaw_input *rows, size_t n)
{
    (void)whom;
    memcpy(target, rows, n * BOWSAW_N_INPUTS * sizeof *rows);
    target += n * BOWSAW_N_INPUTS;
}
size_t scratch_bytes(void) { return BOWSAW_SCRATCH_BYTES; }
int32_t describe(
    const uint8_t *grey, int32_t width, int32_t height, size_t stride, bowsaw_input *out)
{
    target = out;
    memset(&scratch, 0x7f, sizeof scratch); /* nothing in it has to be set */
    return bowsaw_describe(grey, width, height, stride, &scratch, copy, NULL);
}
void line(const uint8_t *grey, int32_t width, int32_t height, int32_t y, uint8_t *out)
{
    bowsaw_describe(grey, width, height, (size_t)width, &scratch, copy, NULL);
    memcpy(out, bowsaw_line(&scratch, y), (size_t)scratch.width);
}
#ifdef BOWSAW_N_CLASSES
int32_t recognise(const uint8_t *grey, int32_t width, int32_t height, size_t stride, float *out)
{
    const int32_t found = bowsaw_recognise(grey, width, height, stride, &scratch, out);
    memcpy(out + BOWSAW_N_CLASSES, scratch.histogram, sizeof scratch.histogram);
    return found;
}
#endif
"""


def describe(library, grey, stride=None, dtype=np.uint8):
    """The descriptors of an image, or the code of the error."""
    height, width = grey.shape
    stride = width if stride is None else stride
    memory = np.full(height * stride, 99, np.uint8)
    rows = np.lib.stride_tricks.as_strided(memory, (height, width), (stride, 1))
    rows[:] = grey
    out = np.empty((max(height * width, 1), 128), dtype)
    n = library.describe(pointer(memory), width, height, ctypes.c_size_t(stride), pointer(out))
    return out[:n] if n >= 0 else n


def recognise(library, grey, n_classes, n_words):
    """The position of an image's class, its scores and its histogram."""
    height, width = grey.shape
    grey, out = np.ascontiguousarray(grey), np.empty(n_classes + n_words, np.float32)
    label = library.recognise(pointer(grey), width, height, ctypes.c_size_t(width), pointer(out))
    return label, out[:n_classes], out[n_classes:]
