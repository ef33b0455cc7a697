import numpy as np
import pytest

from bowsaw.errors import ParameterError
from bowsaw.random_streams import check_seed, seed_from, stream

FIRST_OF_SPLIT_1 = [0.8900727119311271, 0.09857549244592867]


def draws(*names, seed=0):
    return stream(seed, *names).random(4).tolist()


def test_a_stream_is_known_by_its_seed_and_its_names():
    assert draws("split", 1) == draws("split", 1)
    others = [draws("split", 2), draws("split"), draws("kmeans", 1), draws("split", 1, seed=1)]
    assert draws("split", 1) not in others
    assert len({tuple(other) for other in others}) == len(others)


def test_numpys_integers_name_the_same_stream():
    assert draws("split", np.int64(3)) == draws("split", 3)
    assert draws("split", seed=np.int32(7)) == draws("split", seed=7)


def test_streams_stay_the_same_from_version_to_version():
    # Splits and codebooks in use depend on these numbers.
    np.testing.assert_allclose(draws("split", 1)[:2], FIRST_OF_SPLIT_1, rtol=1e-15)


@pytest.mark.parametrize("seed", [-1, 1.0, "0", None, True, 2.5])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(ParameterError, match="an integer of at least 0"):
        check_seed(seed)


def test_a_random_state_becomes_a_seed():
    assert seed_from(5) == 5
    assert seed_from(np.int64(5)) == 5
    a, b = np.random.RandomState(3), np.random.RandomState(3)
    assert seed_from(a) == seed_from(b)
    assert seed_from(a) != seed_from(np.random.RandomState(4))
    assert seed_from(np.random.default_rng(3)) == seed_from(np.random.default_rng(3))


def test_the_global_random_state_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    stream(0, "split").random(10)
    seed_from(None)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002
