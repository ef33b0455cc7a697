from __future__ import annotations

import json

import numpy as np
import pytest
from tests.comparison.toys import timeless, toys

import bowsaw as bs
from bowsaw.checkpoint import exclusive
from bowsaw.comparison.bench import Bench
from bowsaw.comparison.collection import Panel
from bowsaw.comparison.crew import WorkerError
from bowsaw.comparison.methods import METHODS
from bowsaw.comparison.records import key_of, read_run
from bowsaw.comparison.run import arena
from bowsaw.errors import BusyError, DataError, FormatError, ParameterError
from bowsaw.evaluation.protocol import evaluate
from bowsaw.report.page import write_page
from bowsaw.report.page_details import Painter

ASKED = {
    "words": [16, 8],
    "sizes": [3, 6],
    "codings": ["hard", "soft"],
    "methods": ["random", "bottleneck", "retrained"],
    "splits": 2,
    "n_jobs": 1,
}
N_CELLS = 2 * 2 * 2 * (1 + 3 * 2)
"""Two full codebooks, two codings, two splits; all words, and three methods at two sizes."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return arena([toys()], tmp_path_factory.mktemp("whole") / "run", **ASKED)


def test_every_cell_of_the_plan_is_there_once(whole):
    keys = [key_of(cell) for cell in whole.cells]
    assert len(keys) == len(set(keys)) == N_CELLS
    assert {key[4] for key in keys} == {"full", "random", "bottleneck", "retrained"}


def test_all_words_score_as_evaluate_says(whole):
    # The protocol is one: the same split, the same k-means, the same choice of C.
    images = toys()
    result = evaluate(
        images.bags, images.y, images.classes, n_words=16, codebook_images=5, train=5, splits=2
    )
    for mapping in ("sqrt", "raw"):
        cells = [
            cell
            for cell in whole.cells
            if cell["method"] == "full" and cell["full_words"] == 16 and cell["coding"] == "hard"
        ]
        found = [cell["results"][mapping]["accuracy"] for cell in cells]
        assert found == result.accuracies(mapping).tolist()


def test_a_cell_says_what_it_codes_with_and_what_that_takes(whole):
    for cell in whole.cells:
        expected = cell["full_words"] if cell["codes_with"] == "full" else cell["size"]
        assert cell["n_coding_words"] == expected
        assert cell["codebook_bytes"] == expected * 4 * 4
        assert cell["codes_with"] == METHODS[cell["method"]].codes_with
        assert cell["n_test"] == sum(map(sum, cell["results"]["sqrt"]["confusion"])) == 12
        assert set(cell["costs"]) >= {"select_seconds", "code_ms", "peak_bytes"}
        assert (cell["sharpness"] is None) == (cell["coding"] == "hard")


def test_shared_stages_change_nothing(whole, tmp_path):
    # A selector that is fitted alone, on the same split, keeps what the arena's cell kept.
    images = toys()
    cell = next(
        cell for cell in whole.cells if key_of(cell) == ("toys", 1, "soft", 16, "random", 3)
    )
    bench = Bench(images, 1, 0, tmp_path)
    alone, _ = bench.cell(Panel("soft", 16, 40.0), "random", 3, ["sqrt", "raw"])
    assert timeless([alone]) == timeless([cell])


def test_k_means_at_the_size_is_the_same_in_panels_of_other_sizes(whole):
    found = {}
    for cell in whole.cells:
        if cell["method"] == "retrained":
            key = (cell["split"], cell["coding"], cell["size"])
            found.setdefault(key, []).append(cell["results"]["sqrt"]["confusion"])
    assert len(found) == 8
    assert all(len(pair) == 2 and pair[0] == pair[1] for pair in found.values())


@pytest.mark.parametrize("n_before", [1, 20])
def test_a_run_that_was_killed_ends_with_the_same_records(whole, tmp_path, n_before):
    class Killed(BaseException):
        pass

    def kill(step):
        if step.n_done == n_before:
            raise Killed

    folder = tmp_path / "run"
    with pytest.raises(Killed):
        arena([toys()], folder, on_cell=kill, **ASKED)
    # A kill in the middle of a line leaves half of it.
    with (folder / "cells.jsonl").open("ab") as file:
        file.write(b'{"set": "toys", "spl')
    assert len(read_run(folder).cells) == n_before
    measured = []
    run = arena([toys()], folder, on_cell=measured.append, **ASKED)
    assert len(measured) == N_CELLS - n_before
    assert timeless(run.cells) == timeless(whole.cells)
    assert run.about["finished"]


def test_threads_change_nothing_but_times(whole, tmp_path):
    run = arena([toys()], tmp_path / "run", **{**ASKED, "n_jobs": 3})
    assert timeless(run.cells) == timeless(whole.cells)


def test_workers_change_nothing_but_times(whole, tmp_path):
    run = arena([toys()], tmp_path / "run", **{**ASKED, "n_jobs": 2, "workers": 2})
    assert timeless(run.cells) == timeless(whole.cells)
    assert {cell["costs"]["threads"] for cell in run.cells} == {1}


def test_what_workers_draw_is_what_one_process_draws(tmp_path):
    asked = {
        "words": [16],
        "sizes": [3, 6],
        "methods": ["refined"],
        "splits": 2,
        "effort": "bounded",
        "painter": Painter,
    }
    alone = arena([toys()], tmp_path / "alone", n_jobs=1, **asked)
    together = arena([toys()], tmp_path / "together", n_jobs=2, workers=2, **asked)
    assert together.details == alone.details


def test_an_error_of_a_worker_is_raised_and_what_was_done_is_kept(tmp_path):
    asked = {**ASKED, "words": [8], "codings": ["hard"], "methods": ["random"], "n_jobs": 2}
    images = toys()
    arena([images], tmp_path / "run", **asked)
    # More words than the codebook's images have descriptors, so k-means must refuse.
    with pytest.raises(DataError):
        arena([images], tmp_path / "run", **{**asked, "words": [1000], "workers": 2})
    assert len(read_run(tmp_path / "run").cells) == 6


def test_a_worker_that_is_killed_is_told(tmp_path):
    import multiprocessing

    def kill(step):
        for worker in multiprocessing.active_children():
            worker.kill()

    with pytest.raises(WorkerError, match="run the same command again"):
        arena([toys()], tmp_path / "run", on_cell=kill, **{**ASKED, "n_jobs": 2, "workers": 2})
    assert read_run(tmp_path / "run").cells


def test_names_that_utf_8_cannot_hold_survive(tmp_path):
    images = toys("sc\udce9nes")
    asked = {**ASKED, "words": [8], "codings": ["hard"], "methods": ["random"], "splits": 1}
    run = arena([images], tmp_path / "run", command="bowsaw compare sc\udce9nes", **asked)
    assert {cell["set"] for cell in run.cells} == {"sc\udce9nes"}
    assert "sc" in write_page(tmp_path / "run").read_text("utf-8")


def test_cells_of_other_sets_are_kept(tmp_path):
    asked = {**ASKED, "words": [8], "codings": ["hard"], "methods": ["random"], "splits": 1}
    arena([toys("pears")], tmp_path / "run", **asked)
    run = arena([toys("plums", shift=2.0)], tmp_path / "run", **asked)
    assert [cell["set"] for cell in run.cells] == ["plums"] * 3 + ["pears"] * 3
    assert set(run.about["sets"]) == {"pears", "plums"}


def test_cells_that_were_made_otherwise_are_measured_again(tmp_path):
    asked = {**ASKED, "words": [8], "codings": ["soft"], "methods": ["random"], "splits": 1}
    arena([toys()], tmp_path / "run", **asked)
    measured = []
    arena([toys()], tmp_path / "run", on_cell=measured.append, sharpness=2.0, **asked)
    assert len(measured) == 3
    assert {cell["sharpness"] for cell in read_run(tmp_path / "run").cells} == {2.0}


def test_more_sizes_are_added_to_what_is_there(tmp_path):
    asked = {**ASKED, "words": [8], "codings": ["hard"], "methods": ["random"], "splits": 1}
    arena([toys()], tmp_path / "run", **{**asked, "sizes": [3]})
    measured = []
    run = arena([toys()], tmp_path / "run", on_cell=measured.append, **{**asked, "sizes": [5]})
    assert [step.cell["size"] for step in measured] == [5]
    assert {cell["size"] for cell in run.cells} == {8, 3, 5}


def test_the_watcher_is_told_how_far_it_is_and_how_long_it_takes(tmp_path):
    steps = []
    asked = {**ASKED, "words": [8], "codings": ["hard"], "methods": ["random"], "splits": 1}
    arena([toys()], tmp_path / "run", on_cell=steps.append, **asked)
    assert [step.n_done for step in steps] == [1, 2, 3]
    assert {step.n_cells for step in steps} == {3}
    assert steps[0].seconds_left > 0
    assert steps[-1].seconds_left == 0


def test_other_images_of_the_same_name_are_refused(tmp_path):
    asked = {**ASKED, "words": [8], "codings": ["hard"], "methods": ["random"], "splits": 1}
    arena([toys()], tmp_path / "run", **asked)
    with pytest.raises(ParameterError, match="other images called 'toys'"):
        arena([toys(shift=3.0, n_each=15)], tmp_path / "run", **asked)


def test_two_runs_do_not_write_to_one_folder(tmp_path):
    (tmp_path / "run").mkdir()
    with exclusive(tmp_path / "run"), pytest.raises(BusyError, match="another process"):
        arena([toys()], tmp_path / "run", **ASKED)


def test_too_few_images_are_told_before_any_work(tmp_path):
    images = toys()
    images.codebook_images = 12
    with pytest.raises(DataError, match="has 14 images, and a split needs at least 18"):
        arena([images], tmp_path / "run", **ASKED)
    assert not (tmp_path / "run" / "work").exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sizes": []}, "sizes must name at least one"),
        ({"sizes": [8]}, "below that of every full codebook"),
        ({"methods": ["sorcery"]}, "got sorcery"),
        ({"codings": ["medium"]}, "hard and soft; got medium"),
        ({"splits": 0}, "splits"),
        ({"effort": "heroic"}, "usual, bounded; got 'heroic'"),
        ({"words": [0]}, "words"),
        ({"sharpness": float("nan")}, "sharpness"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(tmp_path, wrong, message):
    with pytest.raises(ParameterError, match=message):
        arena([toys()], tmp_path / "run", **{**ASKED, **wrong})


def test_names_of_sets_must_differ(tmp_path):
    with pytest.raises(ParameterError, match="a name of its own"):
        arena([toys(), toys()], tmp_path / "run", **ASKED)


def test_records_hold_the_words_and_heirs_of_the_first_split(tmp_path):
    run = arena(
        [toys()],
        tmp_path / "run",
        words=[16],
        sizes=[3, 6],
        methods=["refined", "random"],
        splits=2,
        effort="bounded",
        painter=Painter,
        n_jobs=1,
    )
    kinds = [line["kind"] for line in run.details]
    assert kinds.count("words") == kinds.count("trace") == 2
    assert kinds[-1] == "codebook"
    assert {line["split"] for line in run.details} == {0}
    for line in run.details:
        if line["kind"] == "words":
            assert len(line["ids"]) == line["size"]
            assert sum(line["mass"]) == pytest.approx(1, abs=1e-3)
            assert line["moved"] is True
    # A second sitting finds all of it drawn.
    before = (tmp_path / "run" / "details.jsonl").read_bytes()
    arena(
        [toys()],
        tmp_path / "run",
        words=[16],
        sizes=[3, 6],
        methods=["refined", "random"],
        splits=2,
        effort="bounded",
        painter=Painter,
        n_jobs=1,
    )
    assert (tmp_path / "run" / "details.jsonl").read_bytes() == before


def test_the_drawing_of_an_interrupted_run_is_that_of_a_whole_one(tmp_path):
    asked = {
        "words": [16],
        "sizes": [3, 6],
        "methods": ["refined"],
        "splits": 1,
        "effort": "bounded",
        "painter": Painter,
        "n_jobs": 1,
    }

    class Killed(BaseException):
        pass

    def kill(step):
        if step.cell["size"] == 3:
            raise Killed

    run = arena([toys()], tmp_path / "whole", **asked)
    with pytest.raises(Killed):
        arena([toys()], tmp_path / "torn", on_cell=kill, **asked)
    # Without the kept words they are chosen again.
    for kept in (tmp_path / "torn" / "work" / "chosen").iterdir():
        kept.unlink()
    torn = arena([toys()], tmp_path / "torn", **asked)
    assert torn.details == run.details


def test_a_damaged_record_is_named_by_file_and_line(tmp_path):
    asked = {**ASKED, "words": [8], "codings": ["hard"], "methods": ["random"], "splits": 1}
    folder = tmp_path / "run"
    arena([toys()], folder, **asked)
    lines = (folder / "cells.jsonl").read_text().splitlines()
    broken = json.loads(lines[1])
    del broken["results"]["sqrt"]["accuracy"]
    (folder / "cells.jsonl").write_text("\n".join([lines[0], json.dumps(broken), ""]))
    with pytest.raises(FormatError, match=r"cells.jsonl, line 2: results.sqrt.accuracy is missing"):
        read_run(folder)
    (folder / "cells.jsonl").write_text(lines[0] + "\n{]\n")
    with pytest.raises(FormatError, match="line 2, is not JSON"):
        read_run(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "it has no run.json"),
        ("{", "is not JSON"),
        ("[]", "is not the record of a run"),
        ('{"format": "bowsaw-arena", "schema": 99}', "has schema 99"),
        ('{"format": "bowsaw-arena", "schema": 1}', "lacks command, kind"),
    ],
)
def test_a_folder_that_is_no_run_is_refused(tmp_path, content, message):
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(FormatError, match=message):
        read_run(tmp_path)


def test_every_method_goes_through(tmp_path):
    # Two dozen words suffice to see that each is told what it needs, in both codings.
    run = arena(
        [toys()],
        tmp_path / "run",
        words=[12],
        sizes=[4],
        codings=["hard", "soft"],
        methods=list(METHODS),
        splits=1,
        effort="bounded",
        n_jobs=1,
    )
    assert {(cell["method"], cell["coding"]) for cell in run.cells} == {
        (name, coding) for name in METHODS for coding in ("hard", "soft")
    }
    for cell in run.cells:
        assert cell["n_columns"] == (12 if cell["method"] == "full" else 4)
        assert 0 <= cell["results"]["sqrt"]["accuracy"] <= 1
        if cell["method"] in ("published", "annealed"):
            assert cell["certificate"]["n_bags"] > 0


def test_the_codebook_in_a_folder_of_work_is_trusted_by_its_fingerprint_alone(tmp_path):
    asked = {**ASKED, "words": [8], "codings": ["hard"], "methods": ["random"], "splits": 1}
    first = arena([toys()], tmp_path / "run", **asked)
    (path,) = (tmp_path / "run" / "work" / "codebooks").glob("*-8.safetensors")
    honest = bs.load(path)
    bs.save(bs.Codebook(np.zeros((8, 4)) + np.arange(8)[:, None]), path)
    (tmp_path / "run" / "cells.jsonl").unlink()
    again = arena([toys()], tmp_path / "run", **asked)
    assert timeless(again.cells) == timeless(first.cells)
    np.testing.assert_array_equal(bs.load(path).words, honest.words)
