"""Every wrong input gives one line that names it, and leaves nothing half made."""

import tempfile
from pathlib import Path
from typing import Literal

import pytest
from broken import Broken, rng
from broken_ai2 import FILES, OPTIONS
from broken_archives import ARCHIVES
from broken_folders import ALLENNLP, MANY_LANGS, NATIVE, OTHERS
from checkpoints import random_options, write_ai2, write_many_langs
from shell import assert_one_line, run_elmox, run_here, tree

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.vectors.embed import embed_file
from elmox.vectors.files import open_vectors

MODELS = [*FILES, *OPTIONS, *ARCHIVES, *NATIVE, *MANY_LANGS, *ALLENNLP, *OTHERS]
# Run through the shell: one for each way in which a file can be wrong.
REPRESENTATIVE = (
    ("info", "hdf5 cut to 0.6"),
    ("info", "options: lstm.n_layers 3"),
    ("embed", "nan in char_embed"),
    ("embed", "options cut"),
    ("convert", "zip with ../escaped"),
    ("info", "zip bomb"),
    ("embed", "malicious encoder.pkl"),
    ("convert", "malicious weights.th"),
    ("convert", "safetensors cut to 0.5"),
    ("embed", "empty directory"),
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A sound model."""
    return write_ai2(tmp_path / "sound", random_options(), rng())


@pytest.mark.parametrize("broken", MODELS, ids=lambda broken: broken.name)
def test_broken_model(
    broken: Broken,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, scratch = tmp_path / "models" / "given", tmp_path / "scratch"
    folder.mkdir(parents=True)
    scratch.mkdir()
    path = broken.build(folder)
    (tmp_path / "in.txt").write_text("a b\n")
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    before = tree(tmp_path / "models")
    with pytest.raises(ElmoxError) as caught:
        Elmo.from_pretrained(path, device="cpu")
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert len(message) < 1000
    for part in broken.mentions:
        assert part in message
    assert str(scratch) not in message
    code, out, err = run_here(["embed", path, tmp_path / "in.txt", tmp_path / "out.hdf5"], capsys)
    assert_one_line(code, out, err, *broken.mentions)
    assert not list(scratch.glob("elmox-*"))  # (torch keeps a folder there)
    assert tree(tmp_path / "models") == before, "something was written"
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(("verb", "name"), REPRESENTATIVE)
def test_broken_model_in_the_shell(verb: str, name: str, tmp_path: Path) -> None:
    broken = next(broken for broken in MODELS if broken.name == name)
    folder = tmp_path / "models" / "given"
    folder.mkdir(parents=True)
    path = broken.build(folder)
    (tmp_path / "in.txt").write_text("a b\n")
    before = tree(tmp_path)
    arguments = {"info": [], "embed": [tmp_path / "in.txt", tmp_path / "out.hdf5"]}
    done = run_elmox(verb, path, *arguments.get(verb, [tmp_path / "out"]))
    assert_one_line(done.returncode, done.stdout, done.stderr, *broken.mentions)
    assert tree(tmp_path) == before


# Bad lines, in a file of that name, and the expected message.
LINES = [
    ("latin-1", "in.txt", b"a\nb\nna\xefve\n", ("in.txt, line 3", "byte 3", "0xef", "UTF-8")),
    ("utf-16", "in.txt", "a b\n".encode("utf-16"), ("in.txt, line 1", "UTF-8")),
    ("lone surrogate", "in.txt", b"a\n\xed\xa0\x80\n", ("in.txt, line 2", "UTF-8")),
    ("cut code point", "in.txt", b"a\nna\xc3", ("in.txt, line 2", "byte 3", "UTF-8")),
    ("no JSON", "in.jsonl", b'{"text": "a"}\nb c\n', ("in.jsonl, line 2", "not JSON")),
    ("JSON cut", "in.jsonl", b'{"text": "a"}\n{"te', ("in.jsonl, line 2", "not JSON")),
    ("JSON nested", "in.jsonl", b"[" * 100_000, ("in.jsonl, line 1", "not JSON")),
    ("JSON with a long number", "in.jsonl", b"9" * 5000, ("in.jsonl, line 1", "not JSON")),
    ("JSON not UTF-8", "in.jsonl", b'{}\xff"', ("in.jsonl, line 1", "UTF-8")),
    ("JSON list", "in.jsonl", b'\n["a", "b"]', ("in.jsonl, line 2", "tokens", "text")),
    ("JSON null", "in.jsonl", b"null", ("in.jsonl, line 1", "tokens", "text")),
    ("no known key", "in.jsonl", b'{"sentence": "a"}', ("in.jsonl, line 1", "tokens", "text")),
    ("tokens of text", "in.jsonl", b'{"tokens": "a b"}', ("in.jsonl, line 1", "tokens")),
    ("tokens of numbers", "in.jsonl", b'{"tokens": ["a", 1]}', ("in.jsonl, line 1", "tokens")),
    (
        "bad tokens next to text",
        "in.jsonl",
        b'{"tokens": [1], "text": "a"}',
        ("in.jsonl, line 1", "tokens"),
    ),
    ("text of numbers", "in.jsonl", b'{"text": 3}', ("in.jsonl, line 1", "text")),
    (
        "half a character among tokens",
        "in.jsonl",
        rb'{"tokens": ["\ud83d\ude00"]}' + b"\n" + rb'{"tokens": ["a", "\ud83d", "\ude00"]}',
        ("in.jsonl, line 2", r"'\ud83d' in", "half a character"),
    ),
    (
        "half a character in text",
        "in.jsonl",
        rb'{"text": "A cat \uDC00."}',
        ("in.jsonl, line 1", r"'\udc00' in", "half a character"),
    ),
]


@pytest.mark.parametrize("output", ["out.hdf5", "out"])
@pytest.mark.parametrize(
    ("name", "content", "expected"), [c[1:] for c in LINES], ids=[c[0] for c in LINES]
)
def test_bad_line(
    name: str,
    content: bytes,
    expected: tuple[str, ...],
    output: str,
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ElmoxError) as caught:
        embed_file(Elmo.from_pretrained(model, device="cpu"), str(tmp_path / name), tmp_path / "o")
    assert len(str(caught.value).splitlines()) == 1
    code, out, err = run_here(["embed", model, tmp_path / name, tmp_path / output], capsys)
    assert_one_line(code, out, err, *expected)
    assert not (tmp_path / output).exists()


@pytest.mark.parametrize(
    ("source", "expected"),
    [("missing.txt", ("missing.txt does not exist", "-")), ("sound", ("sound is a directory",))],
)
def test_bad_source(
    source: str,
    expected: tuple[str, ...],
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = tree(tmp_path)
    code, out, err = run_here(["embed", model, tmp_path / source, tmp_path / "out.hdf5"], capsys)
    assert_one_line(code, out, err, *expected)
    assert tree(tmp_path) == before


# Arguments of `elmox embed MODEL in.txt` and the expected message.
ARGUMENTS = [
    (["out.csv"], ("out.csv", ".hdf5", ".parquet")),
    (["missing/out.hdf5"], ("missing",)),
    (["in.txt/out.hdf5"], ("in.txt",)),
    (["out.hdf5", "--layers", "bottom"], ("--layers bottom", "average", "top", "all", "mix")),
    (["out.hdf5", "--layers", "3"], ("layer 3", "0 to 2")),
    (["out.hdf5", "--layers", "-4"], ("layer -4", "0 to 2")),
    (["out.hdf5", "--layers", "0,5"], ("layer 5", "0 to 2")),
    (["out.hdf5", "--layers", "--1"], ("--layers --1",)),
    (["out.hdf5", "--layers", "0,"], ("--layers 0,",)),
    (["out.hdf5", "--layers", ""], ("''",)),
    (["out.hdf5", "--layers", "mix"], ("no mix", "average")),
    (["out.hdf5", "--layers", "mix:ner"], ("no mix", "average")),
    (["out.hdf5", "--state", "warm"], ("warm", "warm_up")),
    (["out.hdf5", "--device", "abacus"], ("--device abacus",)),
    (["out.hdf5", "--device", "cuda:99"], ("--device cuda:99",)),
    (["out.hdf5", "--options", "missing.json"], ("missing.json does not exist",)),
    (["out.hdf5", "--vocab", "missing.txt", "--token-embeddings", "in.txt"], ("missing.txt",)),
    (["out.hdf5", "--token-embeddings", "in.txt"], ("in.txt",)),
]


@pytest.mark.parametrize(("arguments", "expected"), ARGUMENTS, ids=lambda value: " ".join(value))
def test_bad_argument(
    arguments: list[str],
    expected: tuple[str, ...],
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("a b\n")
    before = tree(tmp_path)
    assert_one_line(*run_here(["embed", model, "in.txt", *arguments], capsys), *expected)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["embed", "m", "in.txt", "out.hdf5", "--dtype", "float64"], "float64"),
        (["embed", "m", "in.txt", "out.hdf5", "--precision", "int4"], "int4"),
        (["embed", "m", "in.txt", "out.hdf5", "--state", "hot"], "hot"),
        (["embed", "m", "in.txt", "out.hdf5", "--batch-tokens", "0"], "batch-tokens"),
        (["embed", "m", "in.txt", "out.hdf5", "--batch-tokens", "many"], "batch-tokens"),
        (["embed", "m", "in.txt"], "OUTPUT"),
        (["embed", "m", "in.txt", "out.hdf5", "--layer", "1"], "--layer"),
        (["conjure"], "conjure"),
        (["train", "recipe.toml"], "--out"),
        (["bench", "embed", "--sentences", "0"], "sentences"),
        (["bench", "embed", "--size", "huge"], "huge"),
        (["bench", "embed", "--precision", "int4"], "int4"),
    ],
)
def test_bad_usage(
    arguments: list[object], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run_here(arguments, capsys)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: ")
    assert err.splitlines()[-1].startswith("Error: ")
    assert expected in err.splitlines()[-1]


@pytest.mark.parametrize("dtype", ["float64", "int4", "half"])
def test_bad_dtype_in_python(dtype: str, model: Path) -> None:
    with pytest.raises(ElmoxError, match=f"dtype='{dtype}': expected float32"):
        Elmo.from_pretrained(model, dtype=dtype)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--text", "missing.txt"], "missing.txt"),
        (["--text", "latin-1.txt"], "latin-1.txt is not UTF-8"),
        (["--text", "empty.txt"], "empty.txt contains no sentence"),
        (["missing.hdf5"], "missing.hdf5 does not exist"),
    ],
)
def test_bad_bench(
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("latin-1.txt").write_bytes(b"na\xefve")
    Path("empty.txt").write_text(" \n")
    assert_one_line(*run_here(["bench", "embed", *arguments], capsys), expected)


@pytest.mark.parametrize("output", ["out.hdf5", "out.parquet", "out"])
def test_embed_leaves_what_is_there(
    output: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("a b\n")
    if output == "out":
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "meta.json").write_text("{}")
    else:
        (tmp_path / output).write_text("precious")
    before = tree(tmp_path)
    code, out, err = run_here(["embed", model, tmp_path / "in.txt", tmp_path / output], capsys)
    assert_one_line(code, out, err, output, "--force")
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("there", "output"),
    [
        ("out/notes.txt", "out"),
        ("out/model.safetensors", "out"),
        ("out.hdf5", "out.hdf5"),
        ("out_options.json", "out.hdf5"),
    ],
)
def test_convert_leaves_what_is_there(
    there: str, output: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).write_text("precious")
    before = tree(tmp_path)
    code, out, err = run_here(["convert", model, tmp_path / output], capsys)
    assert_one_line(code, out, err, there.split("/")[0], "--force")
    assert tree(tmp_path) == before


def test_force_replaces_no_other_things(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slip of the hand, `elmox convert MODEL ~ --force`, must not cost a home directory."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("precious")
    (tmp_path / "in.txt").write_text("a b\n")
    before = tree(tmp_path)
    for arguments in (["convert", model], ["embed", model, tmp_path / "in.txt"]):
        done = run_here([*arguments, tmp_path / "home", "--force"], capsys)
        assert_one_line(*done, "home", "other ")
        assert tree(tmp_path) == before


@pytest.mark.parametrize("kind", ["char", "word_char"])
def test_convert_refuses_what_hdf5_cannot_hold(
    kind: Literal["char", "word_char"], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_many_langs(tmp_path / "model", kind, rng())
    before = tree(tmp_path)
    done = run_here(["convert", folder, tmp_path / "out.hdf5"], capsys)
    assert_one_line(*done, "ELMoForManyLangs", "native directory")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("output", ["out", "out.hdf5"])
@pytest.mark.parametrize("max_file_bytes", [100, 15_000])
def test_convert_on_a_full_disk(
    output: str, max_file_bytes: int, model: Path, tmp_path: Path
) -> None:
    before = tree(tmp_path)
    done = run_elmox("convert", model, tmp_path / output, max_file_bytes=max_file_bytes)
    assert_one_line(done.returncode, done.stdout, done.stderr, "cannot write", "out", "too large")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("output", ["out.hdf5", "out.parquet", "out"])
def test_embed_on_a_full_disk(
    output: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("a b c d e f g h\n" * 100)  # 115,200 bytes of vectors
    before = tree(tmp_path)
    arguments = ["embed", model, tmp_path / "in.txt", tmp_path / output]
    done = run_elmox(*arguments, max_file_bytes=20_000)
    assert_one_line(done.returncode, done.stdout, done.stderr, "cannot write", output, "too large")
    after = tree(tmp_path)
    assert all(after[name] == content for name, content in before.items())
    assert all(name.startswith(f"{output}.partial") for name in after.keys() - before.keys())
    # There is room again: the same command is all that is needed.
    code, _, err = run_here([*arguments], capsys)
    assert code == 0, err
    assert {name.split("/")[0] for name in tree(tmp_path)} == {"in.txt", "sound", output}
    with open_vectors(tmp_path / output) as vectors:
        assert len(vectors) == 100
