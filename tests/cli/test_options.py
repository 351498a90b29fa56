"""Options that verbs share: one name, one meaning, one default, in the shell and in Python."""

import inspect
import json
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import typer
from language_models import tiny_lm
from shell import assert_one_line, command, environment, run_elmox, run_here

from elmox.cli.main import app
from elmox.elmo import Elmo
from elmox.export import export_onnx
from elmox.probes.neighbors import find_neighbors
from elmox.probes.pos.probe import PosOptions
from elmox.serve.config import ServeConfig
from elmox.serve.limits import Limits
from elmox.tasks.fit.session import TaskSession
from elmox.training.corpus.prepare import PrepareOptions, prepare_corpus
from elmox.training.finetune import FinetuneOptions, finetune
from elmox.training.loop import train
from elmox.training.plan import plan
from elmox.vectors.embed import embed_file
from elmox.vectors.plan import plan_embed

# Verbs that run no model, or only to check a file, have neither --device nor --threads.
NO_MODEL = {"info", "convert", "export", "prepare", "search", "card", "package", "explore"}
# Flags whose values differ from verb to verb. All others have one help text.
OWN_MEANING = {
    "--layers": {"fit"},  # what a task can mix
    "--precision": {"bench lstm", "bench cnn"},  # of training
    "--out": {
        *("probe pos", "probe wsd", "bench lstm", "bench cnn", "bench train", "bench embed"),
        *("card", "package"),
    },
    "--vocab": {"prepare"},  # of the softmax
    "--train": {"probe pos", "probe wsd"},
    "--dev": {"probe pos"},
    "--test": {"probe pos", "probe wsd"},
    "--seeds": {"probe pos"},
    "--size": {"bench embed"},
    "--elmo": {"fit", "ablate", "search"},  # the biLM to fit on, or the index's
    "-k": {"neighbors", "search"},
    "--vocab-size": {"finetune"},
    "--min-count": {"finetune", "index"},
    "--hold-out": {"finetune"},
    "--resume": {"finetune"},
    "--state": {"export"},  # of the graph
    "--softmax": {"export"},  # whether to export it
    "--no-softmax": {"package"},
    "--threads": {"serve"},  # of each worker
    "--workers": {"serve", "prepare", "plan embed"},
    "--batch-tokens": {"serve"},
    "--tokens": {"score"},
    "--folder": {"bench embed"},
    "--dtype": {"convert"},  # of weights
    "--word": {"search"},
    "--words": {"index"},
    "--senses": {"search"},
    "--name": {"package"},
    "--license": {"package"},
    "--data": {"card"},
    "--tagger": {"package"},
    "--check": {"explore"},
}
FORMER_NAMES = {"--output", "--layer"}


def all_verbs() -> Iterator[tuple[str, Any]]:
    """All verbs with their commands: `embed`, `probe pos`, ..."""
    group: Any = typer.main.get_command(app)
    for name, member in group.commands.items():
        for inner, verb in getattr(member, "commands", {"": member}).items():
            if not verb.hidden:
                yield f"{name} {inner}".rstrip(), verb


VERBS = dict(all_verbs())


def options(verb: str) -> dict[str, Any]:
    """The options of a verb by their flags, without the hidden ones."""
    return {
        flag: option
        for option in VERBS[verb].params
        if option.param_type_name == "option" and not option.hidden
        for flag in option.opts
    }


def test_one_help_text_per_option() -> None:
    texts: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for verb in VERBS:
        for flag, option in options(verb).items():
            if verb not in OWN_MEANING.get(flag, ()):
                texts[flag][option.help].append(verb)
    different = {flag: dict(verbs) for flag, verbs in texts.items() if len(verbs) > 1}
    assert not different


def test_a_switch_is_off_without_its_name() -> None:
    """`--check` needs no `--no-check`; `--browser`, which is on by default, has `--no-browser`."""
    for verb in VERBS:
        for flag, option in options(verb).items():
            if option.is_flag:
                assert bool(option.secondary_opts) == bool(option.default), f"{verb} {flag}"
    assert options("explore")["--browser"].secondary_opts == ["--no-browser"]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_the_common_options(verb: str) -> None:
    flags = options(verb).keys()
    assert {"--quiet", "--json"} <= flags
    assert verb in NO_MODEL or {"--device", "--threads"} <= flags
    assert not FORMER_NAMES & flags


def python_default(functions: tuple[Callable[..., Any], ...], name: str) -> Any:
    """The default of a parameter in Python; `...` where no function has it."""
    for function in functions:
        parameter = inspect.signature(function).parameters.get(name)
        if parameter is not None and parameter.default is not parameter.empty:
            return () if isinstance(parameter.default, tuple) else parameter.default
    return ...


NAMES = {"precision": "dtype", "workers": "num_workers", "seeds": "num_seeds", "out": "output"}
SAME: dict[str, tuple[Callable[..., Any], ...]] = {
    "embed": (embed_file,),
    "export": (export_onnx,),
    "predict": (Elmo.predict,),
    "neighbors": (find_neighbors,),
    "prepare": (PrepareOptions, prepare_corpus),
    "finetune": (FinetuneOptions, finetune, PrepareOptions),
    "train": (train,),
    "plan train": (plan,),
    "plan embed": (plan_embed,),
    "probe pos": (PosOptions,),
    "fit": (TaskSession, TaskSession.fit),
    "serve": (ServeConfig, Limits),
}


@pytest.mark.parametrize("verb", SAME)
def test_defaults_are_those_of_python(verb: str) -> None:
    compared = []
    for option in options(verb).values():
        functions = (*SAME[verb], Elmo.from_pretrained)
        expected = python_default(functions, NAMES.get(option.name, option.name))
        if expected is ... or (verb, option.name) == ("finetune", "hold_out"):
            continue
        default = option.default.value if isinstance(option.default, Enum) else option.default
        assert default == expected or (default is None and not expected), option.name
        compared.append(option.name)
    assert compared


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model directory with a softmax."""
    tiny_lm(tmp_path / "lm").elmo().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


THREADS = ["bench", "lstm", "--size", "small", "--rows", 2, "--steps", 2, "--repeats", 1]


@pytest.mark.parametrize("by_variable", [False, True])
def test_threads(by_variable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if by_variable:
        monkeypatch.setenv("ELMOX_THREADS", "3")
    more = [] if by_variable else ["--threads", 3]
    done = run_elmox(*THREADS, "--no-peers", "--json", *more)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["machine"]["threads"] == 3


@pytest.mark.parametrize("number", ["0", "many"])
def test_wrong_threads(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_here([*THREADS, "--threads", number], capsys)
    assert (code, out) == (2, "")
    assert "--threads" in err


def test_quiet(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No messages, but results and errors."""
    (tmp_path / "in.txt").write_text("I will buy you a present.\n")
    arguments = ["embed", tiny, tmp_path / "in.txt", tmp_path / "out"]
    assert run_here([*arguments, "--raw", "--quiet"], capsys) == (0, "", "")
    assert run_here([*arguments, "--quiet"], capsys) == (0, "", "")  # complete already
    assert_one_line(*run_here([*arguments, "--layers", "top", "--quiet"], capsys), "exists already")
    convert = ["convert", tiny, tmp_path / "model", "--quiet"]
    assert run_here(convert, capsys) == (0, "", "")


def test_convert_prints_json(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run_here(["convert", tiny, tmp_path / "a.hdf5", "--json"], capsys)
    assert (code, err) == (0, "")
    assert json.loads(out)["output"] == [
        str(tmp_path / f"a{end}") for end in (".hdf5", "_options.json")
    ]


def test_a_stdout_that_lacks_characters(model: Path) -> None:
    """A line instead of a traceback; JSON escapes what cannot be shown."""
    variables = environment(PYTHONIOENCODING="latin-1")
    for more in ([], ["--json"]):
        done = subprocess.run(
            command("score", model, "-", *more),
            input="naïve 天".encode(),
            env=variables,
            capture_output=True,
            check=False,
        )
        if more:
            assert (done.returncode, json.loads(done.stdout)["tokens"]) == (0, ["naïve", "天"])
        else:
            out, err = done.stdout.decode(), done.stderr.decode()
            assert_one_line(done.returncode, out, err, "stdout is latin-1", "--json")
