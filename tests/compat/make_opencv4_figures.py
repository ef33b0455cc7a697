"""Ask OpenCV 4 for the figures that ``bowsaw.compat.opencv`` is compared with.

Run by hand in an environment with "opencv-python-headless<5" and NumPy, without bowsaw::

    python tests/compat/make_opencv4_figures.py

It writes ``tests/compat/data/opencv4.npz``: inputs, seeds, words, histograms, and what came of
calls at the edges. The tests make the same calls with our classes.
"""

from pathlib import Path

import cv2
import numpy as np

FIGURES = Path(__file__).parent / "data" / "opencv4.npz"
COUNT, EPS = cv2.TERM_CRITERIA_COUNT, cv2.TERM_CRITERIA_EPS

WORDS = {
    "by default": ("sift", 0, (12,)),
    "few iterations": ("sift", 1, (20, (COUNT, 3, 0.0))),
    "one attempt": ("sift", 2, (9, (COUNT + EPS, 10, 1.0), 1)),
    "random centres": ("sift", 3, (15, (COUNT + EPS, 20, 0.5), 4, cv2.KMEANS_RANDOM_CENTERS)),
    "many words": ("plain", 4, (60, (COUNT, 10, 0.0), 2, cv2.KMEANS_PP_CENTERS)),
    "one word": ("plain", 5, (1,)),
    "a flat array": ("flat", 6, (5,)),
    "as many as descriptors": ("few", 7, (6,)),
    "equal descriptors": ("equal", 8, (3,)),
}
"""Which descriptors, OpenCV's seed, and the arguments of the trainer."""

MATCHERS = {
    "nearest": ("sift", lambda: cv2.BFMatcher(cv2.NORM_L2)),
    "city block": ("sift", lambda: cv2.BFMatcher(cv2.NORM_L1)),
    "hamming": ("orb", lambda: cv2.BFMatcher(cv2.NORM_HAMMING)),
}
"""The feature, and how the nearest word is found."""

FEATURES = {
    "sift": lambda: cv2.SIFT_create(80),
    "orb": lambda: cv2.ORB_create(60, edgeThreshold=15, patchSize=15),
}

VOCABULARY = {"sift": "by default words", "orb": "orb words"}
"""The words that each feature's descriptors are counted by."""


def draw_image(seed):
    """Return squares of four sizes added up, 112 × 112 pixels: corners and blobs for a detector."""
    generator = np.random.default_rng(seed)
    layers = [
        np.kron(generator.integers(0, 64, (112 // side, 112 // side)), np.ones((side, side), int))
        for side in (4, 7, 14, 28)
    ]
    return np.sum(layers, axis=0).astype(np.uint8)


def as_table(keypoints):
    rows = [(*k.pt, k.size, k.angle, k.response, k.octave, k.class_id) for k in keypoints]
    return np.array(rows, np.float64)


def as_keypoints(table):
    return [cv2.KeyPoint(*map(float, r[:5]), int(r[5]), int(r[6])) for r in table]


def rows_of(figures, source):
    """Return the descriptors of this name: stored ones, or made of these."""
    sift = np.concatenate([figures[f"sift {i} descriptors"] for i in range(3)])
    made = {"sift": sift, "few": sift[:6], "equal": np.full((5, 4), 3, np.uint8)}
    return made[source] if source in made else figures[f"{source} rows"]


def words_of(trainer, descriptors, seed, arguments):
    """Add the descriptors in two parts, as of two images, and cluster."""
    cv2.setRNGSeed(seed)
    made = trainer(*arguments)
    half = (len(descriptors) + 1) // 2
    for part in (descriptors[:half], descriptors[half:]):
        made.add(part.astype(np.float32))
    return made.cluster()


def outcome(call):
    """Return in a few words what came of a call."""
    try:
        result = call()
    except cv2.error:
        return "cv2.error"
    except TypeError:
        return "TypeError"
    if isinstance(result, np.ndarray):
        return f"{result.shape} {result.dtype}"
    if isinstance(result, tuple):
        return f"tuple of {len(result)}"
    return repr(result)


def outcomes(trainer, extractor):
    """Make the calls at the edges with these two classes."""
    rows = (np.arange(60, dtype=np.float32) ** 2 % 71).reshape(20, 3)
    image = draw_image(0)
    sift, orb = FEATURES["sift"](), FEATURES["orb"]()
    keypoints = sift.detect(image, None)
    words = sift.compute(image, keypoints)[1][:5].copy()
    by_name = {"clusterCount": 2, "termcrit": (1, 5, 0.0), "attempts": 1, "flags": 0}
    border, bits = [cv2.KeyPoint(1.0, 1.0, 5.0)], np.zeros((2, 32), np.uint8)
    few = words[1:3].copy()
    hamming, twice = cv2.BFMatcher(cv2.NORM_HAMMING), cv2.BFMatcher(cv2.NORM_L2, True)

    def filled(*parts):
        made = trainer(3)
        for part in parts:
            made.add(part)
        return made

    def cleared():
        made = filled(rows)
        made.clear()
        return made

    def ready(vocabulary=words, matcher=None, feature=sift):
        made = extractor(feature, matcher or cv2.BFMatcher())
        made.setVocabulary(vocabulary)
        return made

    fresh, used = extractor(sift, cv2.BFMatcher()), cv2.BFMatcher()
    used.add([words, words])
    ready(words[:2], used)
    kept, first = ready(), filled(rows)
    calls = {
        "no count": lambda: trainer(),
        "a fraction of a word": lambda: trainer(3.5),
        "a count that is true": lambda: trainer(True),
        "a count in text": lambda: trainer("3"),
        "two numbers to stop by": lambda: trainer(3, (1, 2)),
        "all by name": lambda: trainer(**by_name).cluster(descriptors=rows),
        "no numbers to stop by": lambda: trainer(2, None).cluster(rows),
        "no attempts": lambda: trainer(2, (1, 5, 0.0), 0).cluster(rows),
        "no words": lambda: trainer(0).cluster(rows),
        "too many words": lambda: trainer(21).cluster(rows),
        "count at first": lambda: trainer(3).descriptorsCount(),
        "arrays at first": lambda: trainer(3).getDescriptors(),
        "cluster at first": lambda: trainer(3).cluster(),
        "add nothing": lambda: trainer(3).add(None),
        "add no rows": lambda: trainer(3).add(rows[:0]),
        "add a list": lambda: trainer(3).add(rows.tolist()),
        "add bytes": lambda: trainer(3).add(rows.astype(np.uint8)),
        "add other columns": lambda: first.add(rows[:, :2].copy()),
        "add another dtype": lambda: first.add(rows.astype(np.float64)),
        "add a flat array": lambda: filled(rows.ravel()).descriptorsCount(),
        "what add returns": lambda: trainer(3).add(rows),
        "count": lambda: filled(rows, rows[:4].copy()).descriptorsCount(),
        "arrays": lambda: filled(rows, rows[:4].copy()).getDescriptors(),
        "the same array": lambda: np.shares_memory(filled(rows).getDescriptors()[0], rows),
        "cluster": lambda: filled(rows).cluster(),
        "cluster others": lambda: trainer(3).cluster(rows),
        "others are not added": lambda: (first.cluster(rows[:7]), first.descriptorsCount())[1],
        "cluster nothing": lambda: trainer(3).cluster(None),
        "cluster no rows": lambda: trainer(3).cluster(rows[:0]),
        "cluster doubles": lambda: trainer(3).cluster(rows.astype(np.float64)),
        "cluster bytes": lambda: filled(rows.astype(np.uint8)).cluster(),
        "cluster NaN": lambda: trainer(3).cluster(rows * np.float32(np.nan)),
        "cluster a view": lambda: trainer(3).cluster(rows[::2, ::-1]),
        "count when cleared": lambda: cleared().descriptorsCount(),
        "cluster when cleared": lambda: cleared().cluster(),
        "another dtype when cleared": lambda: cleared().add(rows.astype(np.float64)),
        "no feature": lambda: extractor(),
        "no matcher": lambda: extractor(sift),
        "matcher and feature": lambda: extractor(cv2.BFMatcher(), sift),
        "by name": lambda: extractor(dextractor=sift, dmatcher=cv2.BFMatcher()).descriptorSize(),
        "size at first": lambda: fresh.descriptorSize(),
        "words at first": lambda: fresh.getVocabulary(),
        "type": lambda: fresh.descriptorType(),
        "compute at first": lambda: fresh.compute(image, keypoints),
        "no keypoints at first": lambda: fresh.compute(image, []),
        "size": lambda: kept.descriptorSize(),
        "words": lambda: kept.getVocabulary(),
        "the same words": lambda: np.shares_memory(kept.getVocabulary(), words),
        "what setting returns": lambda: kept.setVocabulary(vocabulary=words),
        "words in a list": lambda: ready(words.tolist()),
        "no rows of words": lambda: ready(words[:0]).compute(image, keypoints),
        "words of None": lambda: ready(None).compute(image, keypoints),
        "words that are a view": lambda: ready(words[::2, ::-1]).compute(image, keypoints),
        "words of other columns": lambda: ready(words[:, :9].copy()).compute(image, keypoints),
        "words in bytes": lambda: ready(words.astype(np.uint8)).compute(image, keypoints),
        "compute": lambda: kept.compute(image, keypoints),
        "compute by name": lambda: kept.compute(image=image, keypoints=keypoints),
        "compute into an array": lambda: kept.compute(image, keypoints, np.zeros((1, 5), "f4")),
        "compute with four": lambda: kept.compute(image, keypoints, None, None),
        "a tuple of keypoints": lambda: kept.compute(image, tuple(keypoints)),
        "no keypoints": lambda: kept.compute(image, []),
        "keypoints of None": lambda: kept.compute(image, None),
        "no image, no keypoints": lambda: kept.compute(None, []),
        "no image": lambda: kept.compute(None, keypoints),
        "in colour": lambda: kept.compute(np.dstack([image] * 3), keypoints),
        "a image of floats": lambda: kept.compute(image.astype(np.float32), keypoints),
        "nothing can be described": lambda: ready(bits, hamming, orb).compute(image, border),
        "a matcher that checks twice": lambda: ready(few, twice).compute(image, keypoints),
        "words that the matcher had": lambda: sum(map(len, used.getTrainDescriptors())),
    }
    return {name: outcome(call) for name, call in calls.items()}


def make_figures():
    """Return every input and what OpenCV 4 makes of it."""
    figures = {"version": cv2.__version__}
    images = np.stack([draw_image(seed) for seed in range(3)])
    figures["images"] = images
    for kind, make in FEATURES.items():
        feature = make()
        for i, image in enumerate(images):
            keypoints = feature.detect(image, None)
            figures[f"{kind} {i} keypoints"] = as_table(keypoints)
            rows = feature.compute(image, keypoints)[1]
            figures[f"{kind} {i} descriptors"] = rows.astype(np.uint8)
            if not np.array_equal(figures[f"{kind} {i} descriptors"], rows):
                raise SystemExit(f"{kind} descriptors are not whole numbers below 256")
    generator = np.random.default_rng(9)
    figures["plain rows"] = generator.integers(0, 200, (300, 7)).astype(np.uint8)
    figures["flat rows"] = generator.integers(0, 200, 40).astype(np.uint8)
    for name, (source, seed, arguments) in WORDS.items():
        rows = rows_of(figures, source)
        figures[f"{name} words"] = words_of(cv2.BOWKMeansTrainer, rows, seed, arguments)
    figures["orb words"] = figures["orb 0 descriptors"][::6].copy()
    for name, (kind, matcher) in MATCHERS.items():
        extractor = cv2.BOWImgDescriptorExtractor(FEATURES[kind](), matcher())
        extractor.setVocabulary(figures[VOCABULARY[kind]])
        for i, image in enumerate(images):
            keypoints = as_keypoints(figures[f"{kind} {i} keypoints"])
            for n in (len(keypoints), 1, 3, 17):
                figures[f"{name} {i} of {n}"] = extractor.compute(image, keypoints[:n])
    answers = outcomes(cv2.BOWKMeansTrainer, cv2.BOWImgDescriptorExtractor)
    figures["calls"] = np.array(list(answers))
    figures["answers"] = np.array(list(answers.values()))
    return figures


if __name__ == "__main__":
    FIGURES.parent.mkdir(exist_ok=True)
    np.savez_compressed(FIGURES, **make_figures())
