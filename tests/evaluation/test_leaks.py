from functools import partial

import numpy as np
import pytest

from bowsaw import PresenceRanking, PruningPath
from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import LeakError
from bowsaw.evaluation.leaks import check_leaks, check_not_selected_by, own_split
from bowsaw.images.split import split_by_class


def bags_of(digests):
    return Bags.from_list([np.ones((1, 2))] * 12, digests=digests)


def trained_on(digests, **more):
    return Codebook(np.eye(2), trained_on=digests, **more)


SPLIT = split_by_class([0] * 6 + [1] * 6, ["a", "b"], codebook=2, train=2)
DIGESTS = np.arange(100, 112, dtype=np.uint64)


def test_the_splits_own_parts_are_no_leak():
    for part in (SPLIT.codebook, SPLIT.train):
        assert check_leaks(trained_on(DIGESTS[part]), bags_of(DIGESTS), [SPLIT]) is None


@pytest.mark.parametrize("n_seen", [1, 3])
def test_every_test_image_is_noticed_and_counted(n_seen):
    rows = SPLIT.test[-n_seen:]
    book = trained_on(np.concatenate([DIGESTS[SPLIT.codebook], DIGESTS[rows]]))
    paths = [f"image{i}" for i in range(12)]
    with pytest.raises(LeakError) as error:
        check_leaks(book, bags_of(DIGESTS), [SPLIT], paths)
    expected = f"trained on {n_seen} of the 4 test images of split 0 (such as image{rows[0]})"
    assert expected in str(error.value)
    assert "Give a codebook of the part codebook; or give no codebook" in str(error.value)
    assert "\n" not in str(error.value)


def test_the_split_that_it_was_trained_on_is_named_if_it_can_test_the_codebook():
    draw = partial(split_by_class, [0] * 6 + [1] * 6, ["a", "b"])
    origin = {"codebook": 2, "train": 2, "seed": 7, "index": 0}
    book = trained_on(DIGESTS[draw(**origin).codebook], provenance={"split": origin})
    bags = bags_of(DIGESTS)
    assert own_split(book, bags, draw) == origin
    advice = "codebook_images=2, train=2, seed=7 and n_splits=1; or give no"
    with pytest.raises(LeakError, match=advice):
        check_leaks(book, bags, [SPLIT], draw=draw)
    for unusable in ({**origin, "codebook": 9}, {**origin, "train": "2"}, {"seed": 7}, "7", None):
        assert own_split(book.with_provenance(split=unusable), bags, draw) is None
    all_seen = book.learned_from(bags)
    assert own_split(all_seen, bags, draw) is None
    with pytest.raises(LeakError, match="Give a codebook of the part codebook"):
        check_leaks(all_seen, bags, [SPLIT], draw=draw)


def test_an_image_that_the_collection_holds_twice_is_let_pass():
    twice = DIGESTS.copy()
    twice[SPLIT.test[0]] = twice[SPLIT.codebook[0]]
    assert check_leaks(trained_on(twice[SPLIT.codebook]), bags_of(twice), [SPLIT]) is None
    with pytest.raises(LeakError, match="trained on 1 of the 4"):
        check_leaks(trained_on(twice[SPLIT.test[:2]]), bags_of(twice), [SPLIT])


def test_unreadable_files_are_not_the_same_image():
    unreadable = np.where(np.isin(np.arange(12), SPLIT.test), 0, DIGESTS).astype(np.uint64)
    assert check_leaks(trained_on([0, 5]), bags_of(unreadable), [SPLIT]) is None


def test_words_that_labels_of_the_bags_have_chosen_are_not_tested_by_folds_of_them():
    bags, y = bags_of(DIGESTS), np.arange(12) % 2
    book = trained_on(DIGESTS[:6])
    # k-means saw no labels, so its own images may be folded.
    assert check_not_selected_by(book, bags) is None
    chosen = book.learned_from(bags[:4], selected_by="annealing")
    assert check_not_selected_by(chosen, bags[6:]) is None
    path = PruningPath(chosen, sizes=[1], cv=2, random_state=0, n_jobs=1)
    for estimate in (
        lambda: path.fit(bags, y, estimate=True),
        lambda: path.fit(bags, y).estimate(),
    ):
        with pytest.raises(LeakError, match=r"6 of the 12 bags may have chosen .* .by annealing"):
            estimate()
    again = PresenceRanking(book, 1, recode=True, n_jobs=1).fit(bags, y).codebook_
    assert again.provenance["selected_by"] == "presence"


def test_images_that_chose_words_of_unknown_origin_are_known():
    unknown = Codebook(np.eye(2))
    chosen = PresenceRanking(unknown, 1, n_jobs=1).fit(bags_of(DIGESTS)[SPLIT.test], [0, 1, 0, 1])
    with pytest.raises(LeakError, match="trained on 4 of the 4"):
        check_leaks(chosen.codebook_, bags_of(DIGESTS), [SPLIT])
    chosen = PresenceRanking(unknown, 1, n_jobs=1).fit(bags_of(DIGESTS)[SPLIT.train], [0, 1, 0, 1])
    with pytest.warns(UserWarning, match="the codebook does not say"):
        check_leaks(chosen.codebook_, bags_of(DIGESTS), [SPLIT])


def test_what_cannot_be_checked_gives_a_warning():
    with pytest.warns(UserWarning, match="the codebook does not say"):
        check_leaks(Codebook(np.eye(2)), bags_of(DIGESTS), [SPLIT])
    with pytest.warns(UserWarning, match="the bags do not say"):
        check_leaks(trained_on(DIGESTS), bags_of(None), [SPLIT])
