"""Methods measured alike: ``compare``, ``evaluate``, and their records."""

from bowsaw.comparison.collection import Collection
from bowsaw.comparison.compare import compare, evaluate
from bowsaw.comparison.methods import METHODS, Method
from bowsaw.comparison.records import Cell, Run, read_run

__all__ = ["METHODS", "Cell", "Collection", "Method", "Run", "compare", "evaluate", "read_run"]
