"""The study of the paper: its panels, claims and the methods that it cites."""
