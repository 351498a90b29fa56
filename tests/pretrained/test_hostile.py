"""Hostile and damaged checkpoints: one line describes the fault, and no other file is read.

These are a part of the set that `benchmarks/hostile_files.py` runs as a whole.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from broken import rng
from checkpoints import random_options, write_ai2
from hostile import Hostile, lay_bait
from hostile_archives import ARCHIVED, many_in_zip, many_members, replaced
from hostile_archives import langs as many_langs
from hostile_hdf5 import HDF5
from hostile_pickles import PICKLED
from hostile_run import BAD, Outcome, opened_files, try_checkpoint
from hostile_sizes import SIZES
from hostile_tf1 import TENSORFLOW
from mutations import FORMATS, mutate
from shell import assert_one_line, run_here

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.io.inputs import read_whole

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="watches files by inotify")

ALL = {hostile.name: hostile for hostile in (*HDF5, *SIZES, *PICKLED, *ARCHIVED, *TENSORFLOW)}
REFUSED = (  # one for each way in which a file can be hostile
    "hdf5: external link to pipe as char_embed",
    "hdf5: external link to model.hdf5 as CNN/b_cnn_0 in a zip",
    "hdf5: external link as a group",
    "hdf5: external storage in text as CNN/b_cnn_0",
    "hdf5: external storage in pipe as char_embed in a zip",
    "hdf5: virtual view of model.hdf5 as char_embed",
    "hdf5: unlimited virtual view of a pipe as char_embed",
    "hdf5: link to itself as char_embed",
    "hdf5: link to a link to another file as char_embed",
    "hdf5: a chunk of half a gigabyte as char_embed",
    "hdf5: a plugin's filter as char_embed",
    "hdf5: references as CNN/b_cnn_0",
    "hdf5: 10000000 cells, gzip",
    "hdf5: 900 layers share one cell",
    "hdf5: a word model's vectors elsewhere",
    "options: lstm.dim 1e+100",
    "options: char_cnn.max_characters_per_token 1e+09",
    "config: lstm.num_layers 1e+05",
    "config: char_cnn.num_highways 1e+09",
    "config: lstm.cell_dim 1e+18",
    "config: 300 banks of 10^9",
    "ELMoForManyLangs: encoder.dim 1e+09",
    "safetensors: names for a terminal",
    "safetensors: as many layers as arrays of no bytes",
    "options.json of 2^40 bytes",
    "archive: calls os.system, zip",
    "many_langs: stride 0, 10^11 halves",
    "archive: a compressed storage of 200 MB",
    "many_langs: names in 300,000 tuples",
    "tar: a negative header",
    "tar: pax of a megabyte of digits",
    "tensorflow: a shape of 2^40",
    "tensorflow: 20,000 variables",
    "tensorflow: a module of highways",
    "tensorflow: one block many times",
    "tensorflow: a name for a terminal",
    "tensorflow: 900 layers share one cell",
    "tensorflow: pipe for .data-00000-of-00001",
    "tensorflow: /dev/zero for .index",
    "tensorflow: latest ../bait/text",
    "given /dev/zero",
    "given pipe",
    "given socket",
    "ai2: pipe for options.json",
    "options = pipe",
)
HARMLESS = (  # what is hostile in them is never read
    "tar: symbolic link weights.th to pipe",
    "tar: hard link options.json to options.json",
    "AllenNLP archive: options in '{bait}/options.json'",
    "AllenNLP folder: options in '{bait}/pipe'",
)
OTHERS = [
    Hostile("a tarball of 11,000 files", partial(many_members, num=11_000, name="{}.txt")),
    Hostile("a zip of 12,000 files", partial(many_in_zip, num=12_000, name="{}.txt")),
    Hostile(
        "a device for a vocabulary",
        partial(replaced, build=many_langs, name="word.dic", by="/dev/zero"),
    ),
]


@pytest.fixture(scope="module")
def bait(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_bait(tmp_path_factory.mktemp("hostile") / "bait")


def tried(hostile: Hostile, folder: Path, bait: Path) -> Outcome:
    """Build it, load it."""
    for name in ("given", "work"):
        (folder / name).mkdir()
    path = hostile.build(folder / "given", bait)
    return try_checkpoint(path, folder / "work", bait, hostile.options)


def test_the_watch_sees_what_is_opened(bait: Path) -> None:
    """Else the tests below would prove nothing."""
    with opened_files(bait) as opened:
        assert opened() == []
        (bait / "text").read_bytes()
        os.close(os.open(bait / "pipe", os.O_RDONLY | os.O_NONBLOCK))
        assert opened() == ["text", "pipe"]


@pytest.mark.parametrize(
    "hostile", [*(ALL[name] for name in REFUSED), *OTHERS], ids=lambda h: h.name
)
def test_refused(hostile: Hostile, tmp_path: Path, bait: Path) -> None:
    outcome = tried(hostile, tmp_path, bait)
    assert set(outcome.verbs.values()) == {"error"}, outcome


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless(name: str, tmp_path: Path, bait: Path) -> None:
    outcome = tried(ALL[name], tmp_path, bait)
    assert set(outcome.verbs.values()) == {"ok"}, outcome


@pytest.mark.parametrize("name", FORMATS)
def test_sound_and_mutated(name: str, tmp_path: Path, bait: Path) -> None:
    sound = Hostile(name, lambda folder, bait: FORMATS[name](folder))
    (tmp_path / "sound").mkdir()
    assert set(tried(sound, tmp_path / "sound", bait).verbs.values()) == {"ok"}

    def build(folder: Path, bait: Path) -> Path:
        path = FORMATS[name](folder)
        mutate(folder, f"{name} in the suite")
        return path

    assert tried(Hostile(name, build), tmp_path, bait).worst not in BAD


def test_weights_of_another_file_are_never_converted(
    tmp_path: Path, bait: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It once copied the text of any file into a bias."""
    path = ALL["hdf5: external storage in text as CNN/b_cnn_0"].build(tmp_path, bait)
    done = run_here(["convert", path, tmp_path / "out"], capsys)
    assert_one_line(*done, "CNN/b_cnn_0", "other files")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["archive: calls os.system", "archive: calls eval"])
def test_no_advice_to_load_a_pickle(name: str, tmp_path: Path, bait: Path) -> None:
    path = ALL[name].build(tmp_path, bait)
    with pytest.raises(ElmoxError, match="not loaded") as caught:
        Elmo.from_pretrained(path)
    error: BaseException | None = caught.value
    while error is not None:  # a traceback shows them all
        assert "weights_only" not in str(error)
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("key", ["softmax", "softmax_vocab"])
def test_a_softmax_is_a_regular_file(key: str, tmp_path: Path, bait: Path) -> None:
    path = write_ai2(tmp_path, random_options(), rng())
    files: dict[str, Any] = {"softmax": path, "softmax_vocab": path, key: bait / "pipe"}
    with pytest.raises(ElmoxError, match="pipe is a pipe, expected a regular file"):
        Elmo.from_pretrained(path, **files)


@pytest.mark.parametrize("verb", ["embed", "prepare"])
def test_a_text_is_no_device(
    verb: str, tmp_path: Path, tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words: list[object] = ["embed", tiny, "/dev/zero", tmp_path / "out.hdf5"]
    if verb == "prepare":
        words = ["prepare", "/dev/zero", "--out", tmp_path / "out"]
    assert_one_line(*run_here(words, capsys), "/dev/zero is a device, expected a text file")
    assert not list(tmp_path.iterdir())


def test_a_recipe_is_a_regular_file(bait: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = run_here(["train", bait / "pipe", "--out", bait / "out"], capsys)
    assert_one_line(*done, "is a pipe, expected a regular file")


def test_errors_are_one_line_that_can_be_printed(tmp_path: Path) -> None:
    error = ElmoxError("names \x1b[2J\x07 and\nlines, \udcff, naïve 天")
    assert str(error) == "names \\x1b[2J\\x07 and lines, \\udcff, naïve 天"
    assert len(str(ElmoxError("a" * 10**6))) < 2100


def test_reading_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_whole(path, 5) == b"12345"
    with pytest.raises(ElmoxError, match="file has 5 bytes, expected at most 4"):
        read_whole(path, 4)
    (tmp_path / "link").symlink_to(path)
    assert read_whole(tmp_path / "link", 5) == b"12345"
    with pytest.raises(ElmoxError, match="is a directory, expected a regular file"):
        read_whole(tmp_path, 5)
    with pytest.raises(ElmoxError, match="missing does not exist"):
        read_whole(tmp_path / "missing", 5)


def test_the_whole_set_is_large_enough() -> None:
    parts = (HDF5, SIZES, PICKLED, ARCHIVED, TENSORFLOW)
    assert len(ALL) == sum(map(len, parts)) >= 270
    assert json.dumps(list(ALL))  # names that can be printed
