"""Classes that other libraries had and dropped, with the same methods and the same results."""
