"""From grey images to local descriptors."""

from bowsaw.descriptors.base import Descriptor
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.descriptors.opencv import OpenCvFeatures

__all__ = ["DenseSift", "Descriptor", "OpenCvFeatures"]
