"""The ways to search, each tested alike."""

from bowsaw.nearest._integer_kernel import AVAILABLE

PATHS = ["float", "vnni"] if AVAILABLE else ["float"]
"""Values of BOWSAW_SEARCH that this processor has."""
