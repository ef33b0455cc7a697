"""Hard coding without an error: ranked lists and an inverted index."""
