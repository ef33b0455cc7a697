"""Learning the words."""
