"""What the tests of this room share."""

from __future__ import annotations

import pytest
from tests.store.pictures import RowPixels, snapshot, write_image, write_images


class Toolbox:
    """What the tests of this room share, as one fixture that also a property test may use."""

    RowPixels = RowPixels
    write_images = staticmethod(write_images)
    write_image = staticmethod(write_image)
    snapshot = staticmethod(snapshot)


@pytest.fixture(scope="session")
def tools() -> type[Toolbox]:
    return Toolbox
