"""The arena: methods × sizes × codings × splits, measured alike, kept as plain records."""
