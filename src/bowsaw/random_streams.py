"""Named random streams from one seed.

Every random choice draws from a stream named after its purpose. Adding a draw in one place never
changes the numbers of another, and one seed reproduces a whole run.
"""

from __future__ import annotations

import hashlib
import numbers

import numpy as np

from bowsaw.validation import check_int


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the random generator of one purpose, such as ``stream(seed, "split", 3)``."""
    # NumPy integers have another repr and must name the same stream.
    plain = tuple(int(n) if isinstance(n, numbers.Integral) else n for n in names)
    digest = hashlib.sha256(repr(plain).encode()).digest()
    key = np.frombuffer(digest[:16], dtype="<u4").tolist()
    return np.random.default_rng(np.random.SeedSequence(check_seed(seed), spawn_key=key))


def check_seed(seed: object, name: str = "seed") -> int:
    """Return ``seed`` as an int, or raise a ParameterError."""
    return check_int(seed, name, 0)


def seed_from(random_state: object) -> int:
    """Turn scikit-learn's ``random_state`` (None, int, RandomState, Generator) into one seed."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(0, 2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(0, 2**31 - 1))
    return check_seed(random_state, "random_state")
