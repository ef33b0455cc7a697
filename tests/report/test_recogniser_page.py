"""What the page that recognises images holds, and what it cannot be made of."""

import json
import re

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.errors import ParameterError
from bowsaw.report import write_recogniser_page

ABOUT = bs.DenseSift().description()


def test_words_and_classifier_are_in_the_page(tmp_path):
    words = np.arange(5 * 128).reshape(5, 128) / 7
    book = bs.Codebook(words, scale=512, description=ABOUT)
    names = [f"class {i} </b>" for i in range(40)]
    model = bs.LinearModel(np.ones((40, 5)), np.ones(40), names, codebook=book.digest)
    for name in ("a.html", "b.html"):
        write_recogniser_page(book, tmp_path / name, model, title="<Pets>", facts=[("a <", "b")])
    page = (tmp_path / "a.html").read_text()
    assert page == (tmp_path / "b.html").read_text()
    assert "<h1>&lt;Pets&gt;</h1>" in page
    assert "40 classes: class 0 &lt;/b&gt;, class 1" in page
    assert "class 29 &lt;/b&gt;, …." in page
    assert '<th scope="row">a &lt;</th><td>b</td>' in page
    # Nothing is loaded and nothing is sent.
    assert "default-src 'none'" in page
    assert not re.search(r"https?:", page)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    assert data["classes"] == names
    assert {name: data[name] for name in ABOUT} == ABOUT


def test_a_page_needs_pictures_and_classes(tmp_path):
    book = bs.Codebook(np.eye(3, 128), description=ABOUT)
    with pytest.raises(ParameterError, match="a page needs a classifier"):
        write_recogniser_page(book, tmp_path / "a.html", None)
    book = bs.Codebook(np.eye(3, 128), description={"name": "opencv"})
    model = bs.LinearModel(np.ones((1, 3)), [0.0], ["a", "b"], codebook=book.digest)
    with pytest.raises(ParameterError, match="the codebook was trained on opencv"):
        write_recogniser_page(book, tmp_path / "a.html", model)
    assert list(tmp_path.iterdir()) == []
