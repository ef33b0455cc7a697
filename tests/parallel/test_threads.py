import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from bowsaw.errors import ParameterError
from bowsaw.parallel import (
    available_cores,
    effective_jobs,
    ordered_map,
    single_threaded_blas,
    threads,
)

JOBS = pytest.mark.parametrize("n_jobs", [None, 3])


def test_jobs_are_threads_and_negative_ones_count_down_from_every_core(monkeypatch):
    assert [effective_jobs(n) for n in (None, 1, 7, np.int64(2))] == [1, 1, 7, 2]
    for n_jobs in (0, 2.0, "2", True):
        with pytest.raises(ParameterError, match="n_jobs must be an integer other than 0"):
            effective_jobs(n_jobs)
    # sched_getaffinity alone once started 64 threads in a container with a quota of 2.
    with monkeypatch.context() as patch:
        patch.setenv("LOKY_MAX_CPU_COUNT", "1")
        assert available_cores() == effective_jobs(-1) == 1
    monkeypatch.setattr(threads, "available_cores", lambda: 4)
    assert [effective_jobs(n) for n in (-1, -2, -4, -5, -100)] == [4, 3, 1, 1, 1]


@JOBS
@pytest.mark.parametrize("n_items", [0, 1, 50])
def test_results_come_in_the_order_of_the_items(n_jobs, n_items):
    def late_first(i):
        time.sleep(0.002 if i == 0 else 0)
        return i * i

    found = list(ordered_map(late_first, iter(range(n_items)), n_jobs))
    assert found == [i * i for i in range(n_items)]


@pytest.mark.parametrize(("n_jobs", "ahead", "most"), [(1, 2, 0), (2, 2, 4), (3, 4, 12)])
def test_items_are_read_no_further_ahead_than_promised(n_jobs, ahead, most):
    read = []

    def items():
        for i in range(100):
            read.append(i)
            yield i

    results = ordered_map(lambda i: i, items(), n_jobs, ahead)
    for taken in range(1, 101):
        assert next(results) == taken - 1
        assert len(read) <= taken + most
    assert list(results) == []


@JOBS
def test_an_exception_comes_where_it_happened(n_jobs):
    def fail_at_five(i):
        if i == 5:
            raise KeyError(i)
        return i

    results = ordered_map(fail_at_five, range(100), n_jobs)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(KeyError, match="5"):
        next(results)
    assert list(results) == []


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_closing_stops_the_work(n_jobs):
    done = []

    def slow(i):
        time.sleep(0.005)
        done.append(i)
        return i

    before = threading.active_count()
    results = ordered_map(slow, iter(range(1000)), n_jobs, ahead=100)
    assert next(results) == 0
    results.close()
    assert len(done) < 100
    assert threading.active_count() == before


def blas_threads():
    # NumPy's alone: SciPy's own may be loaded by another test at any time, and no kernel uses it.
    libraries = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
    return [lib["num_threads"] for lib in libraries if "scipy" not in lib["filepath"]]


def test_blas_is_restored_whatever_the_order_in_which_threads_end():
    before = blas_threads()
    first, second = single_threaded_blas(), single_threaded_blas()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(blas_threads()) <= {1}
    second.__exit__(None, None, None)
    assert blas_threads() == before
