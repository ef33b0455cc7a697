"""Named random streams from one seed.

Every random choice in bowsaw draws from a stream that is named after its purpose, so that adding a
draw in one place never moves the numbers of another, and one seed reproduces a whole run.
"""

from __future__ import annotations

import hashlib
import numbers

import numpy as np

from bowsaw.errors import ParameterError


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the random generator of one purpose.

    Parameters
    ----------
    seed : int
        The seed of the whole run, not negative.
    *names : str or int
        What the stream is for, such as ``"split", 3``.

    Returns
    -------
    numpy.random.Generator

    Examples
    --------
    >>> from bowsaw.seeds import stream
    >>> bool(stream(0, "split", 1).random() == stream(0, "split", 1).random())
    True
    >>> bool(stream(0, "split", 1).random() == stream(0, "split", 2).random())
    False
    """
    # NumPy's whole numbers print otherwise than Python's, and must name the same stream.
    plain = tuple(int(n) if isinstance(n, numbers.Integral) else n for n in names)
    digest = hashlib.sha256(repr(plain).encode()).digest()
    key = np.frombuffer(digest[:16], dtype="<u4").tolist()
    return np.random.default_rng(np.random.SeedSequence(check_seed(seed), spawn_key=key))


def check_seed(seed: object, name: str = "seed") -> int:
    """Return ``seed`` as an int, or raise a ParameterError that says what it must be."""
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral) or seed < 0:
        raise ParameterError(f"{name} must be a whole number from 0 up; got {seed!r}.")
    return int(seed)


def seed_from(random_state: object) -> int:
    """Turn scikit-learn's ``random_state`` (None, int or RandomState) into one seed."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(0, 2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(0, 2**31 - 1))
    return check_seed(random_state)
