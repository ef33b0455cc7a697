"""How much a set of words tells, cheaply again after every move."""
