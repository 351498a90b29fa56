"""The house style, as far as a program can check it: names, docstrings, errors, spelling."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "elmox"
PYTHON = sorted(
    path
    for folder in ("src/elmox", "examples", "tests", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
    if path != Path(__file__).resolve()  # lists the words that are not used
)
LIBRARY = [path for path in sorted(SOURCE.rglob("*.py")) if path.parts[len(SOURCE.parts)] != "cli"]
PROSE = [
    path
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/**/*.md")
    for path in sorted(ROOT.glob(pattern))
]

VAGUE_NAMES = {"own", "found", "said", "says", "told"}
OPENINGS = re.compile(r"(What|How|Where|Of|Whoever|Who|That)\b")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
FLAGS_OF_OTHERS = {
    "--nproc-per-node",
    "--max-restarts",
    "--long",
    "--no-deps",
    "--local-ranks-filter",
}
BRITISH = re.compile(
    r"\b\w*(tokenis|normalis|recognis|optimis(?!t)|initialis|summaris|neighbour|behaviour|colour"
    r"|licence|labelled|labelling|centred)\w*", re.IGNORECASE
)  # fmt: skip
DIALECT = re.compile(
    r"\b(reckon\w*|but for|beside|untold|unsettle\w*|whoever|nobody|somebody)\b", re.IGNORECASE
)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def bound_names(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield every name that is assigned or declared, with its line."""
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def docstrings(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of functions and classes, with their lines."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text = ast.get_docstring(node)
            if text:
                yield node.lineno, text


def raised_texts(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the string constants inside `raise` statements, with their lines."""
    for node in ast.walk(module):
        if isinstance(node, ast.Raise):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


def is_dialect(name: str) -> bool:
    """Whether the words of a function's name are not those of the field."""
    opens_badly = name.startswith("test ") and OPENINGS.match(name.removeprefix("test ").title())
    return bool(opens_badly or DIALECT.search(name) or BRITISH.search(name))


def test_variables_are_named_after_what_they_hold() -> None:
    bad = [
        f"{relative(path)}:{line}: {name}"
        for path in PYTHON
        for line, name in bound_names(tree(path))
        if name in VAGUE_NAMES
    ]
    assert not bad, "\n".join(bad)


def test_functions_are_named_in_the_words_of_the_field() -> None:
    bad = [
        f"{relative(path)}:{node.lineno}: {node.name}"
        for path in PYTHON
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_dialect(node.name.replace("_", " ").strip())
    ]
    assert not bad, "\n".join(bad)


def test_docstrings_open_with_a_verb_or_name_the_thing() -> None:
    bad = [
        f"{relative(path)}:{line}: {text.splitlines()[0]}"
        for path in PYTHON
        for line, text in docstrings(tree(path))
        if OPENINGS.match(text)
    ]
    assert not bad, "\n".join(bad)


def test_library_errors_speak_python() -> None:
    bad = [
        f"{relative(path)}:{line}: {flag}"
        for path in LIBRARY
        for line, text in raised_texts(tree(path))
        for flag in FLAG.findall(text)
        if flag not in FLAGS_OF_OTHERS
    ]
    assert not bad, "\n".join(bad)


def test_nothing_is_decided_by_the_text_of_an_error() -> None:
    """`"..." in str(error)` breaks as soon as a message is reworded.

    torch raises a bare `RuntimeError` for a lack of CPU memory and for errors of gloo.
    """
    without_a_class = {SOURCE / "io" / "memory.py", SOURCE / "training" / "distributed.py"}
    bad = [
        f"{relative(path)}:{node.lineno}"
        for path in sorted(set(SOURCE.rglob("*.py")) - without_a_class)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Compare)
        and any(isinstance(op, ast.In | ast.NotIn) for op in node.ops)
        and any(ast.unparse(side) == "str(error)" for side in node.comparators)
    ]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("pattern", [BRITISH, DIALECT], ids=["spelling", "words"])
def test_prose_uses_the_words_of_the_field(pattern: re.Pattern[str]) -> None:
    paths = [*PROSE, *PYTHON]
    bad = [
        f"{relative(path)}:{number}: {match.group()}"
        for path in paths
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if (match := pattern.search(line)) and "neighbours" not in line  # the hidden alias
    ]
    assert not bad, "\n".join(bad)
