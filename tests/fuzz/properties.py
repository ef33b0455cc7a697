"""The same mutations, drawn by hypothesis: it looks for the smallest input that breaks a promise.

Coverage leads the other engine deeper; this one, when it has found something, makes it small.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from tests.fuzz.engine import Finding, Reader, Tally, attempt
from tests.fuzz.mutations import LONGEST


def inputs_of(reader: Reader) -> st.SearchStrategy[bytes]:
    """Return a strategy of seed files that were changed up to three times."""

    def changed(data: bytes, rng: Random, times: int) -> bytes:
        for _ in range(times):
            data = reader.mutate(data, rng)
        return data[:LONGEST] if reader.spliced else data

    rng = st.randoms(use_true_random=False)
    return st.builds(changed, st.sampled_from(reader.seeds()), rng, st.integers(0, 3))


def try_properties(reader: Reader, folder: Path, n_inputs: int, start: int | None = None) -> Tally:
    """Try inputs; the smallest that breaks the reader, if any, is the finding of the tally.

    ``start`` is the seed; None draws the same inputs in every run.
    """
    tally = Tally()

    def one(data: bytes) -> None:
        found = attempt(reader, data, folder)
        tally.done += 1
        if isinstance(found, Finding):
            tally.findings[:] = [found]
            raise AssertionError(found.detail)
        if found == "accepted":
            tally.accepted += 1
        else:
            tally.refused += 1

    check: Any = settings(
        max_examples=n_inputs,
        database=None,
        deadline=None,
        derandomize=start is None,
        suppress_health_check=list(HealthCheck),
    )(given(inputs_of(reader))(one))
    if start is not None:
        check = seed(start)(check)
    try:
        check()
    except AssertionError:
        if not tally.findings:
            raise
    return tally
