"""Estimators that work on a cluster."""

from __future__ import annotations

import copy
from typing import Any, Self

from sklearn.base import BaseEstimator


class OnCluster(BaseEstimator):
    """For estimators with a parameter ``parallel``: a clone works with the same client.

    scikit-learn copies parameters when it clones. A client of Dask is a connection, which cannot be
    copied, and a clone should not have one of its own. Between processes (``GridSearchCV`` with
    ``n_jobs``) a client cannot go at all; the address of its scheduler can.
    """

    parallel: Any

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted estimator with the same parameters."""
        alone = copy.copy(self)
        alone.parallel = None
        twin: Self = super(OnCluster, alone).__sklearn_clone__()
        twin.parallel = self.parallel
        return twin
