"""The examples of README and docs, run as they stand, and their links.

A page's Python blocks and `elmox` lines run from top to bottom in a directory of their own, which
holds the files that the pages speak of. Other lines of shell blocks, and blocks without a language,
are only shown. A server is started on a free port, in place of the address that the page names.
In a table whose columns are called `old` and `new`, the code of the `new` columns runs, row by row.
"""

import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from example_files import ROOT, write_example_files
from http_server import running
from shell import run_here
from task_files import write_task_files

from elmox.tasks.registry import TASKS

DOCS = ROOT / "docs"
PARTS = (
    "",
    "start/",
    "tutorials/",
    "integrations/",
    "tasks/",
    "migration/",
    "reference/",
    "reference/api/",
    "background/",
)
PAGES = [
    ROOT / "README.md",
    *(path for part in PARTS for path in sorted(DOCS.glob(f"{part}*.md"))),
]
# Pages with nothing to run.
TABLES = {
    "results.md", "stability.md", "tutorials/index.md", "migration/index.md",
    *(f"reference/api/{name}.md" for name in ("elmo", "embedding", "tasks", "vectors")),
}  # fmt: skip
# Pages whose package is not installed with the others: flair needs other versions, Spark is large.
APART = {
    "integrations/flair.md": "flair",
    "migration/flair.md": "flair",
    "integrations/spark.md": "pyspark",
}
GENERATED = {DOCS / "reference" / name for name in ("cli.md", "recipes.md")}
LANGUAGES = ("python", "bash", "")
ADDRESS = "http://127.0.0.1:8000"  # of `elmox serve ... &`

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    code: str
    line: int  # on which its code begins, counted from 1


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    start, language, code = 0, "", list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        assert not re.match(r"\s+```|\s*~~~", line), f"line {number}: such a fence is not found"
        if not start and line.startswith("```"):
            start, language, code = number + 1, line.removeprefix("```").strip(), []
        elif start and line == "```":
            yield Block(language, "\n".join(code), start)
            start = 0
        elif start:
            code.append(line)
    assert not start, f"the block at line {start} has no end"


def runs(column: str) -> bool:
    """Whether the code of a column of a migration table runs."""
    return (column.startswith("new") and "recipe" not in column) or "runs" in column


def migrated(text: str) -> Iterator[Block]:
    """The code of the columns `new` of the tables `old | new`, row by row."""
    columns: list[int] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.startswith("|"):
            columns = []
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not columns and cells[0].startswith("old"):
            columns = [index for index, name in enumerate(cells) if runs(name)]
            continue
        for cell in (cells[column] for column in columns):
            for code in re.findall(r"(?:^|<br>)`([^`]+)`", cell):
                yield Block("bash" if code.startswith("elmox ") else "python", code, number)


def runnable(text: str) -> list[Block]:
    """The blocks and the rows of tables, in the order of the page."""
    return sorted([*blocks(text), *migrated(without_blocks(text))], key=lambda block: block.line)


def elmox_commands(code: str) -> Iterator[list[str]]:
    """The arguments of every `elmox` line of a shell block."""
    for line in code.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(line, comments=True) or [""]
        if program == "elmox":
            yield arguments


def run(
    block: Block,
    page: Path,
    names: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    servers: ExitStack,
) -> int:
    """Run a block in the current directory; returns how many things ran.

    All in this process, except servers: what `elmox` is as one, the tests of the command line show.
    """
    if block.language == "python":
        code = "\n" * (block.line - 1) + block.code  # so that a traceback shows the page's line
        code = code.replace(ADDRESS, names.get("SERVER", ADDRESS))
        exec(compile(code, str(page), "exec"), names)
        return 1
    commands = list(elmox_commands(block.code)) if block.language == "bash" else []
    for arguments in commands:
        if arguments[-1] == "&":
            assert arguments[0] == "serve"
            names["SERVER"] = servers.enter_context(running(*arguments[1:-1])).url
            continue
        exit_code, _, errors = run_here([*arguments], capsys)
        assert exit_code == 0, f"{page.name}: elmox {shlex.join(arguments)}: {errors}"
    return len(commands)


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", without_blocks(page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def without_blocks(text: str) -> str:
    """The text with empty lines in place of its blocks."""
    return re.sub(
        r"^```.*?^```$",
        lambda block: "\n" * block[0].count("\n"),
        text,
        flags=re.MULTILINE | re.DOTALL,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that the pages speak of: one tiny random model in every container, and texts."""
    write_example_files(tmp_path)
    write_task_files(tmp_path)
    return tmp_path


@every_page
def test_examples_run(
    page: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if package := APART.get(page.relative_to(DOCS).as_posix() if DOCS in page.parents else ""):
        pytest.importorskip(package)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ELMOX_CACHE", str(folder / "cache"))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # otherwise the first python3 of PATH
    names: dict[str, Any] = {"__name__": page.stem}
    with ExitStack() as servers:
        page_blocks = runnable(page.read_text("utf-8"))
        num_run = sum([run(block, page, names, capsys, servers) for block in page_blocks])
    has_code = page.relative_to(ROOT).as_posix().removeprefix("docs/") not in TABLES
    assert bool(num_run) == has_code, f"{page.name}: {num_run} examples"


@every_page
def test_languages_are_those_that_run(page: Path) -> None:
    """A block called `py` or `sh` would be shown and never run."""
    for block in blocks(page.read_text("utf-8")):
        assert block.language in LANGUAGES, f"{page.name}, line {block.line}"


def test_readme_shows_both_python_and_shell() -> None:
    page_blocks = list(blocks(PAGES[0].read_text("utf-8")))
    assert any(block.language == "python" for block in page_blocks)
    assert any(
        list(elmox_commands(block.code)) for block in page_blocks if block.language == "bash"
    )


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", without_blocks(page.read_text("utf-8"))):
        path, _, anchor = link.partition("#")
        if ":" in path:  # the world outside
            continue
        target = page.parent / path if path else page
        if target.resolve() in GENERATED or (target.with_suffix(".py").exists() and not anchor):
            continue  # a page that only the site has: test_site.py follows the links there
        assert target.exists(), f"{page.name} links to {link}, which does not exist"
        assert not anchor or anchor in headings(target), f"{page.name}: no such heading: {link}"


def test_the_table_of_tasks_is_the_registry() -> None:
    rows = [
        f"| [`{task.name}`]({task.name}.md) | {task.summary} | {task.formats} | {task.score} |"
        for task in TASKS.values()
    ]
    page = (DOCS / "tasks" / "index.md").read_text("utf-8")
    table = [line for line in page.splitlines() if line.startswith("| [`")]
    assert table == rows
    assert {path.stem for path in (DOCS / "tasks").glob("*.md")} == {"index", *TASKS}
