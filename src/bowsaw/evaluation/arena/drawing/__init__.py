"""What the page draws of a run, kept as plain lines."""
