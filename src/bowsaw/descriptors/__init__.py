"""Local descriptors of images."""
