"""Fitting where scikit-learn has no callbacks."""

import importlib
import subprocess
import sys

import numpy as np
import pytest

import bowsaw as bs


def test_a_version_without_callbacks_fits_the_same(monkeypatch):
    rng, y = np.random.default_rng(0), np.arange(12) % 2
    bags = [rng.normal([label, 0.0], 1.0, size=(20, 2)) for label in y]
    plain = bs.KMeansCodebook(4, max_iter=3, random_state=0).fit(bags)
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    spec = importlib.util.find_spec("bowsaw.progress")
    old = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(old)
    assert not hasattr(old.CallbackSupport, "set_callbacks")

    class Older(bs.KMeansCodebook):
        """As it is where nothing can be set up."""

        _init_callback_context = property(lambda self: object.__getattribute__(self, "nothing"))

        @old.with_callbacks
        def fit(self, X, y=None):
            with old.fit_task(self, 3, X=X, y=y) as task:
                assert not task.observed
                return super().fit(X, y)

    assert not hasattr(Older(), "_init_callback_context")
    assert Older(4, max_iter=3, random_state=0).fit(bags).codebook_ == plain.codebook_


@pytest.mark.slow
def test_the_whole_package_works_where_callbacks_cannot_be_imported():
    # scikit-learn 1.9 needs its callbacks itself, so they are hidden after it was imported.
    code = """
import sys, sklearn.pipeline, sklearn.svm, sklearn.model_selection
sys.modules["sklearn.callback"] = None
import numpy as np, bowsaw as bs
from sklearn.pipeline import make_pipeline
rng, y = np.random.default_rng(0), np.arange(12) % 2
bags = [rng.normal([3.0 * label, 0.0], 1.0, size=(20, 2)) for label in y]
words = bs.KMeansCodebook(6, random_state=0)
saw = bs.Refinement(words, 3, n_steps=2, start=bs.Annealing(None, n_steps=4))
model = make_pipeline(saw, bs.HistogramClassifier()).fit(bags, y)
print(hasattr(saw, "set_callbacks"), model.score(bags, y))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False 1.0\n", "")
