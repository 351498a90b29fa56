"""Errors: messages that can be printed, in the language of the reader."""

import pickle
import re
import tomllib
from pathlib import Path

import pytest

from elmox.cli.flags import error_message, flag
from elmox.errors import (
    MAX_MESSAGE,
    Argument,
    ArgumentError,
    ElmoxError,
    NothingHeldOut,
    OutputExists,
    install_hint,
    require_at_least,
)

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("argument", "python", "on_command_line"),
    [
        (Argument("hold_out"), "hold_out", "--hold-out"),
        (Argument("hold_out", 0), "hold_out=0", "--hold-out 0"),
        (Argument("force", True), "force=True", "--force"),
        (Argument("softmax", False), "softmax=False", "--no-softmax"),
        (Argument("num_workers"), "num_workers", "--workers"),
        (Argument("valid", "a b.txt"), "valid='a b.txt'", "--valid 'a b.txt'"),
        (Argument("data.dir", "DIR"), "data.dir='DIR'", "--set data.dir=DIR"),
    ],
)
def test_an_argument_in_both_languages(
    argument: Argument, python: str, on_command_line: str
) -> None:
    assert str(argument) == python
    assert flag(argument) == on_command_line


def test_a_message_in_both_languages() -> None:
    error = OutputExists(Path("{out}"))
    assert error.path == Path("{out}")
    assert str(error).endswith("{out} exists already: choose another name, or overwrite it "
                               "with force=True")  # fmt: skip
    assert error_message(error).endswith("overwrite it with --force")
    assert error_message(ElmoxError("a.txt is empty")) == "a.txt is empty"


def test_an_error_within_an_error_is_translated_too() -> None:
    inner = NothingHeldOut(3, num_documents=2)
    error = ArgumentError("{}; {} does without", inner, Argument("hold_out", 0))
    assert str(error).startswith("hold_out=3 holds out nothing, because the text has only 2 doc")
    assert error_message(error).startswith("--hold-out 3 holds out nothing")
    assert error_message(error).endswith("give held-out text as --valid; --hold-out 0 does without")


@pytest.mark.parametrize(
    "error", [OutputExists(Path("{a}")), NothingHeldOut(3, 1), ArgumentError("{}", Argument("a"))]
)
def test_errors_of_worker_processes(error: ArgumentError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)
    assert error_message(copy) == error_message(error)


def test_a_message_is_one_printable_line() -> None:
    assert str(ElmoxError("a\nb\x1b[1m")) == r"a b\x1b[1m"
    assert str(ArgumentError("{}\n", "\x07")) == r"\x07 "
    assert len(str(ElmoxError("x" * 10_000))) < MAX_MESSAGE + 10


def test_a_number_that_is_too_small() -> None:
    require_at_least(2, "hold_out", 2)
    require_at_least(2, "hold_out", None)
    with pytest.raises(ArgumentError, match=r"^hold_out is 1, expected at least 2$"):
        require_at_least(2, "hold_out", 1)


def test_every_hint_to_install_names_an_extra() -> None:
    """One function writes the hints, so that all of them work in a clone too."""
    assert install_hint("zstd").startswith("pip install 'elmox[zstd]' (in a clone")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text("utf-8")
        assert "elmox[" not in text or path.name == "errors.py", path
        extras |= set(re.findall(r"install_hint\([\"'](\w+)[\"']\)", text))
    assert {"zstd", "plots", "parquet", "spacy"} <= extras <= set(project["optional-dependencies"])
