"""What is published: metadata, workflows, archives, and a wheel that needs no checkout."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml

import bowsaw as bs

TOP = Path(__file__).resolve().parents[1]
WORKFLOWS = TOP / ".github" / "workflows"
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]
BIN, EXE = ("Scripts", ".exe") if sys.platform == "win32" else ("bin", "")
# Neither the checkout nor this environment may help the installed package.
ALONE = {
    name: value
    for name, value in os.environ.items()
    if name not in {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
} | {"PIP_CONSTRAINT": str(TOP / "constraints.txt"), "PYTHONDONTWRITEBYTECODE": ""}


def run(*command: object, cwd: Path) -> str:
    """Run a command away from the checkout and return what it prints."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=ALONE, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def supported_versions() -> list[str]:
    found = (re.fullmatch(r".*Python :: (3\.\d+)", line) for line in PROJECT["classifiers"])
    return [match[1] for match in found if match]


def test_classifiers_and_the_workflow_name_the_same_versions_of_python():
    versions = supported_versions()
    assert versions[0] == PROJECT["requires-python"].removeprefix(">=")
    matrix = yaml.safe_load((WORKFLOWS / "ci.yml").read_text("utf-8"))["jobs"]["entry-points"]
    assert matrix["strategy"]["matrix"]["python"] == versions


def test_only_the_job_that_publishes_may_ask_for_a_token():
    release = yaml.safe_load((WORKFLOWS / "release.yml").read_text("utf-8"))
    assert release["permissions"] == {"contents": "read"}
    build, publish = release["jobs"]["build"], release["jobs"]["publish"]
    assert "permissions" not in build
    assert publish["permissions"] == {"id-token": "write"}
    assert (publish["needs"], publish["environment"]["name"]) == ("build", "pypi")
    # What was checked is what is published: the second job runs no command of its own.
    assert all("run" not in step for step in publish["steps"])


def test_every_action_is_pinned_to_a_major_version():
    used = re.findall(r"uses: (\S+)", "".join(p.read_text("utf-8") for p in WORKFLOWS.iterdir()))
    assert used
    assert [name for name in used if not re.search(r"@(release/)?v\d+$", name)] == []


def test_the_citation_names_each_key_once():
    # It had two versions, of which readers saw either.
    text = (TOP / "CITATION.cff").read_text("utf-8")
    keys = re.findall(r"^([\w-]+):", text, re.M)
    assert sorted(keys) == sorted(set(keys))
    cited = yaml.safe_load(text)
    assert (cited["version"], cited["license"]) == (bs.__version__, PROJECT["license"])
    assert cited["authors"] == PROJECT["authors"]


@pytest.fixture(scope="module")
def dist(tmp_path_factory) -> Path:
    """Build the source archive, and from it the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, TOP, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(dist) -> Path:
    (found,) = dist.glob(f"bowsaw-{bs.__version__}-py3-none-any.whl")
    return found


def test_packages_hold_what_is_tracked_and_nothing_else(dist, wheel):
    files = sorted(dist.iterdir())
    assert len(files) == 2
    run(sys.executable, "-m", "twine", "check", "--strict", *files, cwd=dist)
    listing = run("git", "-C", TOP, "ls-files", "-co", "--exclude-standard", cwd=dist)
    tracked = {name for name in listing.splitlines() if (TOP / name).is_file()}
    with tarfile.open(dist / f"bowsaw-{bs.__version__}.tar.gz") as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert packed - tracked == {"PKG-INFO"}
    left_out = {name for name in tracked - packed if not name.startswith((".github/", ".ci/"))}
    assert left_out == {".gitattributes", ".pre-commit-config.yaml"}
    source = {name.removeprefix("src/") for name in tracked if name.startswith("src/")}
    with zipfile.ZipFile(wheel) as archive:
        installed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert installed == source


def test_packages_shrink_and_predict_in_an_empty_environment(wheel, tmp_path):
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:64, :64]
    waves = {"flat": rows, "steep": columns, "slanted": rows + columns}
    for name, phase in waves.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(10):
            grey = 128 + 90 * np.sin(phase / 3 + i) + rng.normal(0, 12, (64, 64))
            image = np.clip(grey, 0, 255).astype(np.uint8)
            target = tmp_path / ("new" if i == 9 else f"photos/{name}") / f"{name}-{i}.png"
            target.parent.mkdir(exist_ok=True)
            assert cv2.imwrite(str(target), image)
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", venv, cwd=tmp_path)
    python, command = (venv / BIN / f"{name}{EXE}" for name in ("python", "bowsaw"))
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    where = run(python, "-c", "import bowsaw; print(bowsaw.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(venv)
    assert run(command, "--version", cwd=tmp_path).split()[-1] == bs.__version__

    run(command, "shrink", "photos", "--keep", 5, "-o", "recogniser", cwd=tmp_path)
    made = {path.name for path in (tmp_path / "recogniser").iterdir()}
    assert made >= {"codebook.safetensors", "classifier.safetensors", "recogniser.onnx"}
    assert made >= {"index.html", "summary.json"}
    answers = run(command, "predict", "recogniser", "new", "--csv", cwd=tmp_path)
    for name in waves:
        assert re.search(rf"{name}-9\.png,{name}\b", answers), answers


def test_packages_run_by_pipx(wheel, tmp_path, monkeypatch):
    for name in ("PIPX_HOME", "PIPX_BIN_DIR", "PIPX_MAN_DIR"):
        monkeypatch.setitem(ALONE, name, str(tmp_path / name))
    pipx = (sys.executable, "-m", "pipx", "run", "--python", sys.executable)
    printed = run(*pipx, "--spec", wheel, "bowsaw", "--version", cwd=tmp_path)
    assert printed.split()[-1] == bs.__version__
