"""Codebooks with a projection: learned by PCA, applied where bags meet words, kept by files."""

import json
import pickle

import numpy as np
import onnxruntime
import pytest
from sklearn.decomposition import PCA

import bowsaw as bs
from bowsaw.cli.main import main
from bowsaw.errors import DataError, MismatchError, ParameterError
from bowsaw.formats.onnx import write_onnx
from bowsaw.inference.survey import Survey, ways_of
from bowsaw.projection import Projection

ABOUT = {"name": "made", "step": 4}
Y = np.repeat([0, 1, 2], 6)


def made(dtype, scale, about=ABOUT):
    """Bags of three classes in 10 dimensions, of which a few vary most."""
    rng = np.random.default_rng(0)
    spread = np.array([40, 30, 20, 10, 6, 5, 4, 3, 2, 1])
    rows = [100 + 8 * label + spread * rng.normal(size=(60, 10)) for label in Y]
    values = [np.clip(np.rint(some), 0, 255).astype(np.uint8) for some in rows]
    values = values if dtype == "uint8" else [some / np.float32(512 / scale) for some in values]
    digests = np.arange(len(Y), dtype=np.uint64)
    return bs.Bags.from_list(values, scale=scale, description=about, digests=digests)


@pytest.fixture(scope="module")
def bags():
    return made("uint8", 512)


@pytest.fixture(scope="module")
def book(bags):
    return bs.KMeansCodebook(20, n_components=4, random_state=0).fit(bags).codebook_


def apply_slowly(projection, rows, scale):
    """In float32, one product after another."""
    mean = projection.mean * np.float32(scale / projection.scale)
    out = np.zeros((len(rows), projection.n_dims), dtype=np.float32)
    for k in range(len(mean)):
        shifted = rows[:, k].astype(np.float32) - mean[k]
        for j in range(projection.n_dims):
            out[:, j] += shifted * projection.matrix[k, j]
    return out


@pytest.mark.parametrize("n_dims", [1, 7, 8, 10, 19])
def test_each_row_is_projected_by_itself_in_the_order_of_its_dimensions(n_dims):
    rng = np.random.default_rng(n_dims)
    projection = Projection(rng.normal(size=n_dims), rng.normal(size=(n_dims, 5)), 512)
    rows = rng.integers(0, 256, size=(9, n_dims)).astype(np.uint8)
    for scale in (512, 1):
        found = projection.apply(rows, scale)
        np.testing.assert_array_equal(found, apply_slowly(projection, rows, scale))
        assert (projection.apply(rows[3:4], scale) == found[3]).all()


@pytest.mark.parametrize(("dtype", "scale"), [("uint8", 512), ("float32", 1)])
def test_the_directions_are_those_of_pca_with_fixed_signs_on_any_threads(dtype, scale):
    bags = made(dtype, scale)
    one, many = (
        bs.KMeansCodebook(5, n_components=3, max_iter=1, random_state=0, n_jobs=n).fit(bags)
        for n in (1, 4)
    )
    assert one.codebook_ == many.codebook_
    projection = one.codebook_.projection
    truth = PCA(3, svd_solver="full").fit(bags.values.astype(np.float64))
    np.testing.assert_allclose(projection.mean, truth.mean_, rtol=1e-5)
    along = np.abs(projection.matrix.T @ truth.components_.T)
    np.testing.assert_allclose(along, np.eye(3), atol=1e-4)
    assert (projection.matrix[np.abs(projection.matrix).argmax(axis=0), range(3)] > 0).all()
    assert one.codebook_.provenance["n_components"] == 3
    assert one.n_features_in_ == 10


def test_all_directions_change_no_code(bags):
    plain = bs.KMeansCodebook(20, random_state=0).fit(bags).codebook_
    turned = Projection.pca([bags.values], 10, scale=512)
    words = turned.apply(plain.words)
    book = bs.Codebook(words, scale=512, description=ABOUT, projection=turned)
    np.testing.assert_array_equal(
        bs.BagOfWords(book).transform(bags), bs.BagOfWords(plain).transform(bags)
    )
    np.testing.assert_allclose(book.unprojected_words, plain.words, atol=1e-3)


@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_projecting_before_coding_is_coding(bags, book, coding):
    coder = bs.BagOfWords(book, coding=coding, n_jobs=2)
    found = coder.transform(bags)
    view = book.project(bags)
    assert book.project(view) is view
    assert view.n_dims == view.values.shape[1] == 4
    assert view.dtype == np.float32
    held = bs.Bags(view.values, view.offsets, scale=512, description=view.description)
    sent = pickle.loads(pickle.dumps(view[::2]))
    plain = bs.BagOfWords(bs.Codebook(book.words, scale=512), coding=coding)
    unmarked = bs.Bags(view.values, view.offsets, scale=512)
    np.testing.assert_array_equal(coder.transform(view), found)
    np.testing.assert_array_equal(coder.transform(held), found)
    np.testing.assert_array_equal(coder.transform(sent), found[::2])
    np.testing.assert_array_equal(plain.transform(unmarked), found)
    np.testing.assert_array_equal(coder.set_params(n_jobs=1).transform(bags), found)
    chunks = np.concatenate([rows for _, rows in coder.transform_chunks(bags)])
    np.testing.assert_array_equal(chunks, found)
    assert coder.fit(bags, Y).n_features_in_ == 10
    assert view.digest() != bags.digest()


def test_a_view_reads_in_blocks_and_by_bag(monkeypatch, bags, book):
    view = book.project(bags)
    whole = view.values
    monkeypatch.setattr("bowsaw.bags._BLOCK_ROWS", 7)
    np.testing.assert_array_equal(view.values, whole)
    np.testing.assert_array_equal(view[-1], whole[-60:])
    np.testing.assert_array_equal(
        np.concatenate(list(view[[3, 1]])), whole[[*range(180, 240), *range(60, 120)]]
    )
    np.testing.assert_array_equal(view.read(50, 70, np.float64), whole[50:70])


def test_bags_in_other_units_are_projected_in_theirs(bags, book):
    unit = made("float32", 1)
    np.testing.assert_allclose(
        bs.BagOfWords(book, coding="soft").transform(unit),
        bs.BagOfWords(book, coding="soft").transform(bags),
        atol=1e-4,
    )


def test_bags_that_do_not_match_are_refused(bags, book):
    values = bags.values
    with pytest.raises(MismatchError, match="4 projected from 10 dimensions"):
        book.project(bs.Bags(values[:, :9]))
    with pytest.raises(MismatchError, match="4 projected from 10 dimensions"):
        book.project(bs.Bags(values[:, :4], scale=512))
    with pytest.raises(MismatchError, match="trained on descriptors"):
        book.project(bs.Bags(values, scale=512, description={"name": "other"}))
    with pytest.raises(MismatchError, match=r"codebook\.project"):
        book.words_for(bags)
    other = bs.KMeansCodebook(20, n_components=4, sample=100, random_state=1).fit(bags).codebook_
    with pytest.raises(MismatchError):
        book.project(other.project(bags))
    with pytest.raises(DataError, match="4 dimensions of scale 512"):
        bs.Codebook(book.words, projection=book.projection)
    with pytest.raises(ParameterError, match="n_components must be an integer from 1 to 10"):
        bs.KMeansCodebook(5, n_components=11).fit(bags)
    with pytest.raises(DataError, match="shapes"):
        Projection([0.0, 1.0], [[1.0]])
    with pytest.raises(DataError, match="finite"):
        Projection([np.nan], [[1.0]])


def test_words_of_unknown_descriptors_take_projected_ones():
    bags = made("uint8", 512, None)
    book = bs.KMeansCodebook(9, n_components=2, random_state=0).fit(bags).codebook_
    assert book.description is None
    named = made("uint8", 512)
    np.testing.assert_array_equal(
        bs.BagOfWords(book).transform(named), bs.BagOfWords(book).transform(bags)
    )
    assert book.learned_from(book.project(named)).description == ABOUT


def test_the_digest_and_equality_know_the_projection(book):
    plain = bs.Codebook(book.words, scale=512)
    with_it = bs.Codebook(book.words, scale=512, projection=book.projection)
    shifted = Projection(book.projection.mean + 1, book.projection.matrix, 512)
    other = bs.Codebook(book.words, scale=512, projection=shifted)
    assert len({plain.digest, with_it.digest, other.digest}) == 3
    assert with_it != plain
    assert with_it != other
    assert with_it == pickle.loads(pickle.dumps(with_it))
    assert book.only(book.ids[:3]).projection == book.without(book.ids[:9]).projection
    assert repr(book) == "Codebook(20 words of 4 projected from 10, scale 512)"
    assert "4 projected from 10" in book._repr_html_()


METHODS = [
    bs.Refinement(n_steps=3, n_folds=2, random_state=0),
    bs.Annealing(n_steps=20, random_state=0),
    bs.PruningPath(random_state=0, refine=2),
    bs.Coverage(),
    bs.KMeansAtSize(random_state=0),
    bs.FarthestPoint(),
    bs.Bottleneck(),
]


@pytest.mark.parametrize("selector", METHODS, ids=lambda one: one.name)
def test_methods_choose_the_words_that_they_choose_in_the_projected_space(selector, bags, book):
    selector.set_params(codebook=book, n_kept=5, n_jobs=1).fit(bags, Y)
    found, histograms = selector.codebook_, selector.transform(bags)
    assert found.projection == book.projection
    assert found.description == ABOUT
    view = book.project(bags)
    plain = bs.Codebook(book.words, book.ids, scale=512)
    unmarked = bs.Bags(view.values, view.offsets, scale=512)
    if "bags" in selector.get_params():
        selector.set_params(bags=unmarked)
    selector.set_params(codebook=plain).fit(unmarked, Y)
    np.testing.assert_array_equal(selector.codebook_.words, found.words)
    np.testing.assert_array_equal(selector.transform(unmarked), histograms)


@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_states_infer_from_unprojected_bags(bags, book, coding):
    kept = book.ids[::2]
    survey = Survey(book, bags, kept, coding=coding, n_moves=1, sample=4)
    rows = survey.run(ways_of(coding, ["all"]), refusals=True).rows
    assert rows[0].refusal is None
    assert rows[0].fidelity.worst < 1e-3
    assert {row.way.transfer for row in rows if row.refusal} <= {"voronoi"}
    state = (
        bs.whatif(book, bags, transfer="gaussian", learn_from=bags[:4])
        if coding == "hard"
        else None
    )
    assert state is None or state.without(kept[:2]).fidelity(3).worst < 1


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_files_keep_the_projection(tmp_path, bags, book, suffix):
    path = tmp_path / f"book{suffix}"
    bs.save(book, path)
    again = bs.load(path)
    assert again == book
    assert again.digest == book.digest
    assert (
        bs.BagOfWords(again).transform(bags).tobytes()
        == bs.BagOfWords(book).transform(bags).tobytes()
    )


@pytest.mark.parametrize("suffix", [".npy", ".yml", ".faiss", ".mat", ".skops"])
def test_files_of_other_tools_refuse_it(tmp_path, book, suffix):
    with pytest.raises(ParameterError, match="lose the codebook's projection"):
        bs.save(book, tmp_path / f"book{suffix}")
    assert not list(tmp_path.iterdir())


def test_onnx_projects(tmp_path, bags, book):
    histograms = bs.BagOfWords(book).transform(bags)
    svm = bs.HistogramClassifier(C=1.0).fit(histograms, Y.astype(str))
    model = bs.LinearModel.of(svm, book)
    write_onnx(book, tmp_path / "book.onnx", model)
    session = onnxruntime.InferenceSession(tmp_path / "book.onnx")
    for i in (0, 7):
        found = session.run(["histogram"], {"descriptors": bags[i].astype(np.float32)})[0]
        np.testing.assert_allclose(found[0], histograms[i], atol=1.5 / len(bags[i]))


def test_the_commands_project(tmp_path, scenes, capsys):
    def run(*words):
        code = main([*map(str, words), "-q"])
        said = capsys.readouterr()
        assert code == 0, said.err
        return said.out

    store, full, small = (tmp_path / n for n in ("s.store", "full.safetensors", "s.safetensors"))
    run("extract", scenes, "-o", store, "--patch-step", "16", "--split", "6/6/rest")
    run("train", store, "--words", "12", "--components", "5", "--max-iter", "2", "-o", full)
    run("prune", full, store, "--method", "annealing", "--keep", "4", "-o", small)
    book = bs.load(small)
    assert (book.n_words, book.n_dims, book.projection.matrix.shape) == (4, 5, (128, 5))
    run("encode", small, store, "-o", tmp_path / "h.npz")
    with np.load(tmp_path / "h.npz") as found:
        truth = bs.BagOfWords(book).transform(bs.Store(store).bags)
        np.testing.assert_array_equal(found["histograms"], truth)
    assert "5 dimensions projected from 128" in run("inspect", small)
    assert json.loads(run("inspect", small, "--json"))["n_dims_in"] == 128
    run("fit", small, store, "--C", "1", "-o", tmp_path / "c.safetensors")
    run("evaluate", store, "--codebook", small, "-o", tmp_path / "run")
    assert (tmp_path / "run" / "index.html").exists()
