"""What a release consists of: the same bytes from the same commit, valid workflows and metadata."""

import gzip
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from elmox import __version__

ROOT = Path(__file__).resolve().parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
BUILD = (
    "import sys; from hatchling.build import build_sdist, build_wheel; "
    "print(build_sdist(sys.argv[1])); print(build_wheel(sys.argv[1]))"
)
SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "custom.github-workflows-require-timeout": WORKFLOWS,
    "vendor.github-issue-forms": [
        GITHUB / "ISSUE_TEMPLATE" / name for name in ("bug.yml", "request.yml")
    ],
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
    "vendor.citation-file-format": [ROOT / "CITATION.cff"],
}


@pytest.fixture(scope="module")
def versions() -> ModuleType:
    """The script behind `make test-lowest`."""
    spec = importlib.util.spec_from_file_location("versions", ROOT / ".ci" / "versions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def built(folder: Path, mtime: int) -> dict[str, bytes]:
    """Build from a copy of this checkout, without the models, whose size takes time."""
    tree = folder / "tree"
    tree.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"):
        shutil.copy(ROOT / name, tree / name)
    ignored = shutil.ignore_patterns("__pycache__", "*.safetensors")
    shutil.copytree(ROOT / "src", tree / "src", ignore=ignored)
    for path in tree.rglob("*"):
        os.utime(path, (mtime, mtime))
    out = folder / "dist"
    out.mkdir()
    subprocess.run(
        [sys.executable, "-c", BUILD, str(out)],
        cwd=tree,
        env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"},
        check=True,
        capture_output=True,
    )
    return {path.name: path.read_bytes() for path in out.iterdir()}


def test_builds_are_reproducible(tmp_path: Path) -> None:
    """In another directory, from files of another age."""
    first, second = built(tmp_path / "a", 1_000_000_000), built(tmp_path / "other", 1_600_000_000)
    assert set(first) == {
        f"elmox-{__version__}.tar.gz", f"elmox-{__version__}-py3-none-any.whl"
    }  # fmt: skip
    assert first == second
    assert len(gzip.decompress(first[f"elmox-{__version__}.tar.gz"])) > 1_000_000


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_of_github_are_valid(schema: str) -> None:
    tool = shutil.which("check-jsonschema", path=f"{Path(sys.executable).parent}:{os.defpath}")
    if tool is None:
        pytest.skip("check-jsonschema is not installed")
    assert SCHEMAS[schema]
    command = [tool, "--builtin-schema", schema, *map(str, SCHEMAS[schema])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_workflows_run_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = {name for line in re.findall(r"^([\w -]+):", makefile, re.M) for name in line.split()}
    used = set()
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text("utf-8"))["jobs"].values():
            for step in job["steps"]:
                used |= set(re.findall(r"\bmake ([\w-]+)", step.get("run", "")))
    assert used >= {"test", "lint", "dist", "test-lowest", "test-newest"}
    assert used <= targets


def test_one_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == __version__
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\n## [{__version__}]" in changelog
    assert "\n## [Unreleased]\n" in changelog


@pytest.mark.parametrize(
    ("requirement", "pinned"),
    [
        ("torch>=2.8", "torch==2.8"),
        ("mkdocs>=1.6,<2", "mkdocs==1.6"),
        ("ray[data]>=2.40", "ray[data]==2.40"),
        (
            "uvloop>=0.21; python_version > '3'",
            "uvloop==0.21; python_version > '3'",
        ),
    ],
)
def test_lowest_requirements(requirement: str, pinned: str, versions: ModuleType) -> None:
    assert versions.lowest(requirement) == pinned


def test_everything_has_a_lowest_version(versions: ModuleType) -> None:
    assert all("==" in line for line in versions.requirements("lowest"))
    with pytest.raises(SystemExit, match="numpy has no lowest version"):
        versions.lowest("numpy")
    missing = [path for path in versions.TESTS if not (ROOT / path).exists()]
    assert not missing
