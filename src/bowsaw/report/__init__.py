"""A page that shows what was kept and what it cost, built from a run's records alone."""
