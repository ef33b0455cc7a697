"""Ordered maps over blocks, on threads or on a Dask cluster."""

from bowsaw.parallel.threads import (
    Scratch,
    available_cores,
    effective_jobs,
    ordered_map,
    single_threaded_blas,
)

__all__ = ["Scratch", "available_cores", "effective_jobs", "ordered_map", "single_threaded_blas"]
