"""Kernels are compiled once: not again for arrays that only differ in how they may be used."""

import os
import subprocess
import sys

import pytest

# Words of several origins: trained, loaded, and an array of a user's own.
WORK = r"""
import importlib, pkgutil, re, sys
import numpy as np
from numba.core.dispatcher import Dispatcher
import bowsaw as bs

rng = np.random.default_rng(0)
y = np.repeat([0, 1, 2], 8)
bags = bs.Bags.from_list([rng.normal(label, 1, size=(60, 8)).astype(np.float32) for label in y])
book = bs.KMeansCodebook(300, random_state=0, max_iter=3).fit(bags).codebook_
bs.save(book, sys.argv[1])
for words in (book, bs.load(sys.argv[1]), np.array(book.words)):
    for coding in ("hard", "soft"):
        bs.BagOfWords(words, coding=coding).fit_transform(bags, y)
for method in (
    bs.Refinement(book, 12, n_steps=5, n_folds=2, random_state=0),
    bs.Refinement(np.array(book.words), 12, n_steps=2, n_folds=0, random_state=0),
    bs.Annealing.paper(book, 12, n_steps=20, random_state=0),
    bs.Bottleneck(book, 12),
):
    method.fit(bags, y)

def plain(signature):
    how = r"readonly |Literal\[int\]\(-?\d+\)|int64|, '[CFA]', (True|False)"
    return re.sub(how, "", str(signature))

for module in pkgutil.walk_packages(bs.__path__, "bowsaw."):
    if not module.name.endswith("_kernel"):
        continue
    for name, kernel in vars(importlib.import_module(module.name)).items():
        if isinstance(kernel, Dispatcher) and kernel.py_func.__module__ == module.name:
            seen = [plain(signature) for signature in kernel.signatures]
            print(name, len(seen))
            if len(set(seen)) < len(seen):
                print("TWICE", name, *kernel.signatures, sep="\n  ")
"""


@pytest.mark.slow
def test_no_kernel_is_compiled_twice(tmp_path):
    """The cache is empty: what kernels call is compiled too, and seen."""
    done = subprocess.run(
        [sys.executable, "-c", WORK, str(tmp_path / "book.safetensors")],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "TWICE" not in done.stdout, done.stdout
    assert "settle 1\n" in done.stdout
    assert "_follow_segment 1\n" in done.stdout
