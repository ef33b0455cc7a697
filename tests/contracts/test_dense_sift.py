"""Our own dense SIFT and reduction against the definition that all implementations share."""

import numpy as np
import pytest
from tests.contracts import dense_sift as contract

from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.errors import ImageError
from bowsaw.images.decode import read_image


@pytest.mark.parametrize("parameters", contract.PARAMETERS, ids=str)
def test_python_agrees_with_the_definition(parameters):
    sift = DenseSift(**parameters)

    def describe(grey):
        try:
            return sift.describe(sift.load(grey).grey)[0]
        except ImageError:
            return None

    contract.assert_agrees(describe, **parameters)


@pytest.mark.parametrize("name", contract.LARGE)
def test_images_are_reduced_as_defined(name):
    ours = read_image(contract.LARGE[name], max_side=contract.MAX_SIDE).grey
    theirs = contract.reduced(name)
    assert ours.shape == theirs.shape
    assert np.abs(ours.astype(int) - theirs).max() <= 1


def test_the_contract_finds_an_implementation_that_differs():
    def wrong(grey):
        return DenseSift().describe(grey)[0] + np.uint8(1) if min(grey.shape) >= 16 else None

    n_different, n_bytes, most = contract.differences(wrong)
    assert n_different == n_bytes
    assert most <= 2
    with pytest.raises(AssertionError, match="smaller than a patch"):
        contract.assert_agrees(lambda grey: np.zeros((1, 128), np.uint8))
