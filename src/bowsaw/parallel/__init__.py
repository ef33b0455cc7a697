"""Ordered maps over blocks: on the threads of this process, or on a cluster of machines."""

from bowsaw.parallel.threads import (
    Scratch,
    available_cores,
    effective_jobs,
    ordered_map,
    single_threaded_blas,
)

__all__ = ["Scratch", "available_cores", "effective_jobs", "ordered_map", "single_threaded_blas"]
