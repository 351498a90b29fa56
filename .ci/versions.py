"""Tests elmox with the lowest or the newest versions that pyproject.toml allows.

    python .ci/versions.py lowest .venv-lowest
    python .ci/versions.py newest .venv-newest

Makes an environment with the Python that runs this, installs elmox as a wheel, imports every module
and runs the tests of the core. torch comes from PyPI unless an index is set: for the smaller wheels
without CUDA, PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu.
"""

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("client", "onnx", "parquet", "plots", "serve", "sklearn", "zstd")
TOOLS = ("pytest>=8", "hypothesis>=6.100", "psutil>=6", "pyyaml>=6", "typing-extensions>=4.12")
# What the core promises; tests of tools, training runs and integrations need everything of `dev`.
TESTS = (
    "tests/io", "tests/text", "tests/model", "tests/pretrained", "tests/inference", "tests/vectors",
    "tests/cli/test_cli.py", "tests/cli/test_cli_embed.py",
    "tests/test_elmo.py", "tests/test_embedding.py",
)  # fmt: skip
IMPORTS = """
import importlib, pkgutil, warnings
import elmox
from elmox.errors import ElmoxError

warnings.simplefilter("ignore")
optional = {"playwright", "spacy", "ray", "transformers", "sentence_transformers", "opentelemetry",
            "pandas", "faiss", "flair", "allennlp", "triton", "thinc", "torch.distributed"}
count = 0
for module in pkgutil.walk_packages(elmox.__path__, "elmox.", onerror=lambda _: None):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
        count += 1
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in optional:
            raise
    except ElmoxError:  # raised for a missing package
        if not module.name.startswith("elmox.integrations."):
            raise
print(f"{elmox.__file__}:", f"{count} modules of elmox {elmox.__version__} import")
"""


def requirements(kind: str) -> list[str]:
    """Return what elmox requires, the lowest of each or as it is."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"]]
    for extra in EXTRAS:
        wanted += project["optional-dependencies"][extra]
    return [lowest(line) for line in wanted] if kind == "lowest" else wanted


def lowest(requirement: str) -> str:
    """Return `name==1.2` for `name>=1.2`; conditions after a semicolon stay."""
    pinned, count = re.subn(r">=\s*([\w.]+)(?:\s*,[^;]*)?", r"==\1", requirement, count=1)
    if not count:
        raise SystemExit(f"{requirement} has no lowest version")
    return pinned


def main() -> None:
    """Make the environment, then test in it."""
    kind, folder = sys.argv[1:]
    if kind not in ("lowest", "newest"):
        raise SystemExit(f"{kind} is neither lowest nor newest")
    if not (Path(folder) / "pyvenv.cfg").exists():
        venv.create(folder, with_pip=True)
    python = str((Path(folder) / "bin" / "python").absolute())
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    upgrade = ["--upgrade"] if kind == "newest" else []
    subprocess.run([*pip, *upgrade, *requirements(kind), *TOOLS], cwd=ROOT, check=True)
    subprocess.run([*pip, "--no-deps", "--force-reinstall", "."], cwd=ROOT, check=True)
    subprocess.run([python, "-m", "pip", "check"], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([python, "-c", IMPORTS], cwd=folder, env=environment, check=True)
    tests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    raise SystemExit(subprocess.run(tests, cwd=ROOT, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
