import inspect
import pickle
import re

import pytest

from bowsaw import errors
from bowsaw.errors import BowsawError, DataError, ImageError, SpaceError

CLASSES = {
    name: thing
    for name, thing in vars(errors).items()
    if inspect.isclass(thing) and issubclass(thing, BowsawError)
}
TABLE = dict(re.findall(r"^``(\w+)``\s+(\d+)\s", errors.__doc__, re.MULTILINE))


def test_the_table_names_every_class_with_its_exit_code():
    assert {name: int(code) for name, code in TABLE.items()} == {
        name: thing.exit_code for name, thing in CLASSES.items() if thing is not BowsawError
    }


def test_each_class_has_an_exit_code_of_its_own():
    # An image is data, and the command line separates the two by their text.
    codes = [c.exit_code for c in CLASSES.values() if c is not ImageError]
    assert len(set(codes)) == len(codes)
    assert ImageError.exit_code == DataError.exit_code
    assert all(0 < code < 64 for code in codes)
    for name in ("ParameterError", "DataError", "MismatchError", "FormatError"):
        assert issubclass(CLASSES[name], ValueError)


@pytest.mark.parametrize("remedy", ["", "Copy it again."])
def test_an_image_error_has_file_reason_and_remedy_and_survives_pickling(remedy):
    error = ImageError("a/b.png", "truncated", remedy)
    assert str(error) == f"a/b.png: truncated. {remedy}".rstrip()
    assert (error.path, error.reason, error.remedy) == ("a/b.png", "truncated", remedy)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is ImageError
    assert vars(again) == vars(error)
    assert str(again) == str(error)


def test_a_space_error_is_an_os_error_with_its_number():
    error = pickle.loads(pickle.dumps(SpaceError(28, "the disk is full")))
    assert isinstance(error, OSError)
    assert error.errno == 28
    assert "the disk is full" in str(error)
