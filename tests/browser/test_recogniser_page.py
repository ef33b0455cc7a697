"""The page that recognises images: Python's answers, whichever way an image comes."""

import base64
from pathlib import Path

import cv2
import numpy as np
import pytest
from tests.browser.test_loading import HOSTILE
from tests.browser.visiting import DESK, PHONE, visit
from tests.contracts import dense_sift as contract
from tests.real.pixels import EACH_SET, assert_agrees, benchmark_of

import bowsaw as bs
from bowsaw.formats.classifier import LinearModel
from bowsaw.report import write_recogniser_page

ASK = """async ({grey, width, height}) => {
  const bytes = Uint8Array.from(atob(grey), (one) => one.charCodeAt(0));
  try {
    const found = await recognise({grey: bytes, width, height});
    const parts = found.parts.map((part) => part.reduce((sum, one) => sum + one, 0));
    const descriptors = Array.from(found.descriptors);
    return {descriptors, scores: found.scores, label: found.label, parts};
  } catch (error) {
    return {error: error.message};
  }
}"""
ASK_BYTES = """async ({grey, width, height}) => {
  const bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const {descriptors, scores} = await recognise({grey: bytes(grey), width, height});
  let text = "";
  for (let i = 0; i < descriptors.length; i += 8192) {
    text += String.fromCharCode(...descriptors.subarray(i, i + 8192));
  }
  return {descriptors: btoa(text), scores};
}"""
ASK_FILE = """async (data) => {
  const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
  return (await recognise(new Blob([bytes]))).label;
}"""
GIVE = """({bytes, how, name}) => {
  const data = new DataTransfer();
  const content = Uint8Array.from(atob(bytes), (one) => one.charCodeAt(0));
  data.items.add(new File([content], name, {type: 'image/png'}));
  const event = how === 'drop'
    ? new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true})
    : new ClipboardEvent('paste', {clipboardData: data, bubbles: true});
  document.body.dispatchEvent(event);
}"""
DRAWN = "document.querySelector('#image').toDataURL()"


def ask(seen, grey):
    """Return what the page finds in grey pixels, or why it does not."""
    text = base64.b64encode(np.ascontiguousarray(grey)).decode()
    given = {"grey": text, "width": grey.shape[1], "height": grey.shape[0]}
    return seen.page.evaluate(ASK, given)


def page_of_definition(folder, parameters):
    """Return a page that describes images by these parameters, of no use otherwise."""
    about = bs.DenseSift(**parameters).description()
    book = bs.Codebook(np.eye(3, 128), scale=512, description=about)
    model = LinearModel(np.ones((1, 3)), [0.0], ["no", "yes"], codebook=book.digest)
    write_recogniser_page(book, folder / "try.html", model)
    return folder / "try.html"


@pytest.fixture(scope="module")
def images(scenes):
    """Real images and their classes."""
    folder = bs.ImageFolder(scenes)
    rows = np.arange(0, len(folder), 12)
    return [str(path) for path in folder[rows]], np.array(folder.classes)[folder.y[rows]]


@pytest.fixture(scope="module")
def made(images, tmp_path_factory):
    """Recognisers by name, and their pages."""
    folder, (paths, y) = tmp_path_factory.mktemp("pages"), images
    found = {}
    for name in ("hard", "soft", "float32", "projected", "two classes"):
        sift = bs.DenseSift(step=4, dtype="float32" if name == "float32" else "uint8")
        bags = sift.transform(paths)
        chosen = np.flatnonzero(np.isin(y, np.unique(y)[: 2 if name == "two classes" else 3]))
        n_out = 16 if name == "projected" else None
        book = bs.KMeansCodebook(20, n_components=n_out, random_state=0).fit(bags).codebook_
        coder = bs.BagOfWords(book, coding="soft" if name == "soft" else "hard")
        machine = bs.HistogramClassifier(C=4.0)
        model = LinearModel.of(machine.fit(coder.transform(bags[chosen]), y[chosen]), coder)
        recogniser = bs.Recogniser(book, model)
        page = folder / f"{name.replace(' ', '-')}.html"
        write_recogniser_page(book, page, model, facts=recogniser.facts())
        found[name] = recogniser, page
    return found


@pytest.mark.parametrize("parameters", contract.PARAMETERS, ids=str)
def test_descriptors_are_those_of_the_definition(browser, tmp_path, parameters):
    with visit(browser, page_of_definition(tmp_path, parameters)) as seen:

        def describe(grey):
            found = ask(seen, grey)
            if "error" in found:
                assert found["error"].startswith("The image is too small: ")
                return None
            return np.array(found["descriptors"]).reshape(-1, 128)

        contract.assert_agrees(describe, **parameters)


def test_images_are_reduced_as_defined(browser, tmp_path):
    with visit(browser, page_of_definition(tmp_path, {})) as seen:
        for name, image in contract.LARGE.items():
            assert ask(seen, image) == ask(seen, contract.reduced(name)), name


@pytest.mark.parametrize("name", ["hard", "soft", "float32", "projected", "two classes"])
def test_pixels_get_the_class_of_python(browser, images, made, name):
    recogniser, page = made[name]
    sift = recogniser.descriptor
    scores = recogniser.decision_function(images[0])
    intercepts = recogniser.model_.intercepts
    if len(intercepts) == 1:
        intercepts = np.array([-intercepts[0], intercepts[0]])
    with visit(browser, page) as seen:
        for path, expected in zip(images[0], scores, strict=True):
            found = ask(seen, sift.load(path).grey)
            np.testing.assert_allclose(found["scores"], expected, rtol=1e-3, atol=1e-3)
            assert found["label"] == np.argmax(expected)
            # The parts of all patches add up to the score without its constant.
            added = np.array(found["parts"]) + intercepts
            np.testing.assert_allclose(added, found["scores"], rtol=1e-5, atol=1e-5)
        assert (seen.complaints, seen.outside()) == ([], [])


def test_a_file_is_recognised_and_its_patches_are_shown(browser, images, made):
    recogniser, page = made["hard"]
    path = images[0][3]
    with visit(browser, page) as seen:
        assert not seen.at("#result").is_visible()
        with seen.page.expect_file_chooser() as chooser:
            seen.at("#choose").focus()
            seen.page.keyboard.press("Enter")
        chooser.value.set_files(path)
        seen.at("#result").wait_for()
        assert seen.text("#class") == recogniser.predict([path])[0]
        scores = sorted(recogniser.decision_function([path])[0], reverse=True)
        shown = [float(text.replace("−", "-")) for text in seen.at("#scores b").all_inner_texts()]
        np.testing.assert_allclose(shown, scores, atol=0.0051)
        assert seen.text("#margin").startswith(f"{scores[0] - scores[1]:.2f} ahead of ")
        assert " ms (decoding " in seen.text("#time")
        label = seen.at("#image").get_attribute("aria-label")
        assert label.startswith("The image ")
        assert label.endswith(f"count most for {seen.text('#class')} are outlined")
        with_patches = seen.page.evaluate(DRAWN)
        seen.at("#scores input").first.focus()
        seen.page.keyboard.press("ArrowDown")
        other = seen.page.evaluate(DRAWN)
        seen.at("#show").click()
        plain = seen.page.evaluate(DRAWN)
        assert len({with_patches, other, plain}) == 3
        assert seen.text("#for") == seen.text("#against") != seen.text("#class")
        # The same file again, and the page is as before.
        seen.page.set_input_files("#file", path)
        seen.at("#scores label:first-child input:checked").wait_for()
        seen.at("#show").click()
        assert seen.page.evaluate(DRAWN) == with_patches
        assert (seen.complaints, seen.outside()) == ([], [])


@pytest.mark.parametrize("how", ["drop", "paste"])
def test_an_image_can_be_dropped_or_pasted(browser, images, made, how):
    recogniser, page = made["soft"]
    pixels = cv2.imread(images[0][5])
    clear = np.dstack([pixels, np.full(pixels.shape[:2], 255, np.uint8)])
    clear[:9, :, 3] = 90
    for image in (pixels, clear):
        data = cv2.imencode(".png", image)[1].tobytes()
        expected = recogniser.decision_function([data])[0]
        with visit(browser, page) as seen:
            given = {"bytes": base64.b64encode(data).decode(), "how": how, "name": "a.png"}
            seen.page.evaluate(GIVE, given)
            seen.at("#result").wait_for()
            found = seen.page.evaluate(
                "async (given) => (await recognise(new Blob([Uint8Array.from(atob(given), "
                "(one) => one.charCodeAt(0))]))).scores",
                given["bytes"],
            )
            np.testing.assert_allclose(found, expected, atol=0.05)
            assert seen.text("#class") == recogniser.classes_[np.argmax(expected)]
            assert (seen.complaints, seen.outside()) == ([], [])


def test_what_is_no_image_is_reported(browser, tmp_path, made, images):
    (tmp_path / "text.png").write_text("no image")
    cv2.imwrite(str(tmp_path / "small.png"), np.zeros((9, 40), np.uint8))
    with visit(browser, made["hard"][1]) as seen:
        for name, message in (
            ("text.png", "This is not an image that the browser can read."),
            ("small.png", "The image is too small: 40 × 9 pixels, and a patch needs 16."),
        ):
            seen.page.set_input_files("#file", tmp_path / name)
            seen.at(
                "#status",
            ).filter(has_text=message).wait_for()
        assert not seen.at("#result").is_visible()
        seen.page.set_input_files("#file", images[0][0])
        seen.at("#result").wait_for()
        assert seen.text("#status") == ""
        seen.page.evaluate(
            "document.body.dispatchEvent(new DragEvent('drop', "
            "{dataTransfer: new DataTransfer(), bubbles: true}))"
        )
        assert seen.text("#status").startswith("That was not a file.")
        assert seen.complaints == []


def test_nothing_overflows_and_there_are_no_barriers(browser, images, made):
    for screen in (PHONE, DESK):
        for dark in (False, True):
            with visit(browser, made["projected"][1], screen=screen, dark=dark) as seen:
                faults = [seen.overflow()]
                seen.page.set_input_files("#file", images[0][0])
                seen.at("#result").wait_for()
                seen.at("summary").click()
                faults += [seen.overflow(), seen.barriers()]
                assert faults == [[], [], []]


def test_names_of_classes_are_text(browser, images, made, tmp_path):
    recogniser, _ = made["hard"]
    model = recogniser.model_
    hostile = LinearModel(
        model.weights, model.intercepts, HOSTILE[:3], scale=model.scale, codebook=model.codebook
    )
    write_recogniser_page(recogniser.codebook_, tmp_path / "try.html", hostile, title=HOSTILE[0])
    with visit(browser, tmp_path / "try.html", screen=PHONE) as seen:
        seen.page.set_input_files("#file", images[0][0])
        seen.at("#result").wait_for()
        assert seen.text("#class") in HOSTILE
        assert seen.page.evaluate("window.hostile ?? null") is None
        assert (seen.complaints, seen.overflow()) == ([], [])


def test_without_javascript_the_page_says_so(browser, made):
    with visit(browser, made["hard"][1], scripts=False) as seen:
        assert "Without JavaScript" in seen.text("noscript")
        assert not seen.at("#choose").is_visible()


@pytest.mark.parametrize("coding", ["hard", "soft"])
@EACH_SET
def test_the_page_gives_the_class_of_python_from_real_pixels(browser, tmp_path, variable, coding):
    paths, greys, descriptors, made = benchmark_of(variable)
    recogniser = made[coding]
    write_recogniser_page(recogniser.codebook_, tmp_path / "try.html", recogniser.model_)
    page = browser.new_page()
    page.goto((tmp_path / "try.html").as_uri())
    found, found_in_files = [], []
    for grey, path in zip(greys, paths, strict=True):
        text = base64.b64encode(np.ascontiguousarray(grey)).decode()
        height, width = grey.shape
        answer = page.evaluate(ASK_BYTES, {"grey": text, "width": width, "height": height})
        rows = np.frombuffer(base64.b64decode(answer["descriptors"]), np.uint8).reshape(-1, 128)
        found.append((rows, np.array(answer["scores"])))
        found_in_files.append(
            page.evaluate(ASK_FILE, base64.b64encode(Path(path).read_bytes()).decode())
        )
    page.close()
    assert_agrees(found, descriptors, recogniser.decision_function(greys))
    # Another decoder gives other pixels; 0.997 and more were measured.
    ours = np.argmax(recogniser.decision_function(paths), axis=1)
    assert np.mean(found_in_files == ours) >= 0.99
