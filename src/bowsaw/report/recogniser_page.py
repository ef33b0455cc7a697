"""One HTML file that recognises images: the recogniser itself, in a browser and without network.

Words, classifier, style and script are inside the file, and its content security policy forbids
every request, so images stay where they are. A worker decodes an image with the browser's own
decoder, turns it grey by OpenCV's weights, and takes the steps that :mod:`bowsaw.images.decode` and
:mod:`bowsaw.descriptors.dense_sift` define. From the same grey pixels it gives Python's class;
decoders differ, so a JPEG file may have other pixels, by a grey level or two.

**Which patches count.** The score of class c is b_c + Σ_k W_ck s m(h_k) (see
:mod:`bowsaw.formats.classifier`). Word k has its share h_k = Σ_p a_pk / n from the codes a_pk of
the n patches, so patch p counts W_ck s m(h_k) · a_pk / (n h_k). Over all patches, these numbers
add up to the score without its constant.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from os import PathLike
from typing import Any

from numpy.typing import ArrayLike, NDArray

from bowsaw.checkpoint import atomic_write
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import ParameterError
from bowsaw.formats.classifier import as_recogniser, sift_of
from bowsaw.formatting import format_count
from bowsaw.markup import Markup, script_json, tag
from bowsaw.report.charts import style_sheet
from bowsaw.report.page import fill, template

MOST_LISTED = 30
"""Classes that are named above the image."""


def write_recogniser_page(
    coder: BagOfWords | Codebook | ArrayLike,
    path: str | PathLike[str],
    classifier: Any,
    *,
    title: str = "Which class is it?",
    facts: Sequence[tuple[str, str]] = (),
) -> None:
    """Write a page that recognises images in a browser.

    Parameters
    ----------
    coder : BagOfWords or Codebook
        The coding, of words that were learned from dense SIFT.
    path : path-like
        The file, usually ``.html``; written atomically.
    classifier : LinearModel or estimator
        From `load_classifier`, or a fitted estimator as `save_classifier` takes it.
    title : str, default="Which class is it?"
        Heading of the page.
    facts : sequence of (str, str), default=()
        What is known about the recogniser, as :meth:`Recogniser.facts` returns it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import bowsaw as bs
    >>> from bowsaw.report import write_recogniser_page
    >>> book = bs.Codebook([[0.0] * 128, [9.0] * 128], description=bs.DenseSift().description())
    >>> model = bs.LinearModel([[-1.0, 1.0]], [0.0], ["cat", "dog"], codebook=book.digest)
    >>> file = Path(tempfile.mkdtemp()) / "try.html"
    >>> write_recogniser_page(book, file, model)
    >>> "default-src 'none'" in file.read_text()
    True
    """
    bow, model = as_recogniser(coder, classifier)
    book = bow.words_in_use()
    sift = sift_of(book)
    if model is None:
        raise ParameterError("a page needs a classifier; got none. Give one of 'bowsaw fit'.")
    if sift is None:
        name = (book.description or {}).get("name", "unknown descriptors")
        raise ParameterError(
            f"a page describes images by dense SIFT, and the codebook was trained on {name}. "
            "Export an ONNX graph or a C header, which begin at descriptors."
        )
    names = [str(name) for name in model.classes]
    data = {**sift.description(), "bytes": sift.dtype == "uint8", "scale": sift.scale}
    data |= {"coding": bow.coding, "n_words": book.n_words, "n_dims": book.n_dims}
    data |= {"mapping": model.mapping, "mapping_scale": model.scale, "classes": names}
    if bow.coding == "soft":
        data["factor"] = min(bow.sharpness_in_use() / book.scale**2, 1e38)
    arrays: dict[str, NDArray[Any]] = {"words": book.words, "weights": model.weights}
    arrays["intercepts"] = model.intercepts
    if book.projection is not None:
        arrays |= {"mean": book.projection.mean, "matrix": book.projection.matrix}
    data |= {name: _base64(array) for name, array in arrays.items()}
    classes = format_count(len(names), "class", "classes")
    known = facts or [("recogniser", f"{classes}, {format_count(book.n_words, 'visual word')}")]
    rows = [tag("tr", tag("th", name, scope="row"), tag("td", value)) for name, value in known]
    more = ", …" * (len(names) > MOST_LISTED)
    values = {
        "title": tag("title", title),
        "style": Markup(style_sheet() + template("page.css") + template("try.css")),
        "heading": tag("h1", title),
        "lead": f"{classes}: {', '.join(names[:MOST_LISTED])}{more}.",
        "facts": tag("table", rows),
        "worker": Markup(template("recognise.js")),
        "data": script_json(data),
        "script": Markup(template("try.js")),
    }
    with atomic_write(path) as file:
        file.write(fill(template("try.html"), values).encode("utf-8", "replace"))


def _base64(values: NDArray[Any]) -> str:
    little = values.astype(values.dtype.newbyteorder("<"), order="C")
    return base64.b64encode(little.tobytes()).decode("ascii")
