"""From a folder of classes to grey images."""

from bowsaw.images.folder import ImageFolder
from bowsaw.images.split import Split

__all__ = ["ImageFolder", "Split"]
