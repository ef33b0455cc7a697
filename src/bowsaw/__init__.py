"""bowsaw prunes visual vocabularies."""

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook

__all__ = ["Bags", "Codebook"]
