"""Model directories with one thing wrong each: our own, ELMoForManyLangs', AllenNLP's, and none."""

import json
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from broken import LFS_POINTER, Broken, cut, rng
from checkpoints import random_options, write_ai2, write_allennlp_archive, write_many_langs
from checkpoints_many_langs import CHARACTERS, SPECIALS, WORDS
from safetensors.torch import load_file, save_file
from torch import Tensor

from elmox.elmo import Elmo

Tensors = dict[str, Tensor]


def native(
    folder: Path, kind: str = "bytes", extras: bool = False, checksums: bool = False
) -> Path:
    """A sound model directory, perhaps with a mix, a warm state and a pooling.

    Without checksums, so that a changed file reaches the checks of its content.
    """
    source = folder / "source"
    if kind == "bytes":
        elmo = Elmo.from_pretrained(write_ai2(source, random_options(), rng()))
    else:
        elmo = Elmo.from_pretrained(write_many_langs(source, "word_char", rng()))
    if extras:
        elmo.set_mix([0.0, 1.0, 2.0])
        elmo.warm_up([["the", "cat"]])
        elmo.fit_pooling([["the", "cat"], ["a", "dog", "saw"], ["it", "rains"]])
    elmo.save_pretrained(folder / "model")
    if not checksums:
        (folder / "model/checksums.json").unlink()
    return folder / "model"


def config(folder: Path, path: str, value: object) -> Path:
    """Our directory with one other value in config.json."""
    model = native(folder)
    values: dict[str, Any] = json.loads((model / "config.json").read_text())
    *parents, key = path.split(".")
    place = values
    for parent in parents:
        place = place[parent]
    place[key] = value
    (model / "config.json").write_text(json.dumps(values))
    return model


def content(
    folder: Path, name: str, text: str | None, kind: str = "bytes", extras: bool = False
) -> Path:
    """Our directory with a file that holds something else, or is missing."""
    model = native(folder, kind, extras)
    (model / name).unlink()
    if text is not None:
        (model / name).write_text(text)
    return model


def tensors(folder: Path, name: str, edit: Callable[[Tensors], object]) -> Path:
    """Our directory with other tensors in one of its files."""
    model = native(folder, extras=True)
    values = load_file(model / name)
    edit(values)
    save_file(values, model / name)
    return model


def cut_tensors(folder: Path, share: float) -> Path:
    """Our directory with weights that were cut off."""
    model = native(folder)
    cut(model / "model.safetensors", share)
    return model


def put(name: str, value: Tensor) -> Callable[[Tensors], object]:
    """An edit: this tensor under this name."""
    return lambda values: values.update({name: value})


def remove(folder: Path, name: str) -> None:
    """An edit of a folder: without this file."""
    (folder / name).unlink()


def overwrite(folder: Path, name: str, text: bytes) -> None:
    """An edit of a folder: this file holds something else."""
    (folder / name).write_bytes(text)


def drop(values: Tensors, name: str) -> None:
    """An edit of tensors: without this one."""
    del values[name]


def many_langs(folder: Path, edit: Callable[[Path], object]) -> Path:
    """An ELMoForManyLangs folder with something changed."""
    write_many_langs(folder, "word_char", rng())
    edit(folder)
    return folder


def setting(section: str, key: str, value: object) -> Callable[[Path], object]:
    """An edit of an ELMoForManyLangs configuration."""

    def edit(folder: Path) -> None:
        path = folder / "cnn_tiny.json"
        values: dict[str, Any] = json.loads(path.read_text())
        values[section] = {**values[section], key: value} if key else value
        path.write_text(json.dumps(values))

    return edit


def state(file: str, name: str, value: object) -> Callable[[Path], object]:
    """An edit of one tensor of a torch file."""

    def edit(folder: Path) -> None:
        values = torch.load(folder / file, weights_only=True)
        values[name] = value
        torch.save(values, folder / file)

    return edit


def allennlp(folder: Path, edit: Callable[[Tensors], object]) -> Path:
    """An AllenNLP serialization directory with other tensors."""
    write_allennlp_archive(folder, random_options(), rng())
    (folder / "model.tar.gz").unlink()
    values = torch.load(folder / "best.th", weights_only=True)
    edit(values)
    torch.save(values, folder / "best.th")
    return folder


def allennlp_options(folder: Path) -> Path:
    """An AllenNLP serialization directory next to options of another model."""
    allennlp(folder, lambda values: None)
    (folder / "options.json").write_text(json.dumps(random_options(n_layers=3)))
    return folder


def write(name: str, text: bytes) -> Callable[[Path], Path]:
    """A folder with a single file of this content, which is what is given."""

    def build(folder: Path) -> Path:
        (folder / name).write_bytes(text)
        return folder / name

    return build


def within(name: str, text: bytes) -> Callable[[Path], Path]:
    """A folder with a single file of this content, given as a folder."""

    def build(folder: Path) -> Path:
        (folder / name).write_bytes(text)
        return folder

    return build


def several_weights(folder: Path) -> Path:
    """A folder with two weight files."""
    weights = write_ai2(folder, random_options(), rng())
    (folder / "more.hdf5").write_bytes(weights.read_bytes())
    return folder


_ENCODER = "text_field_embedder.token_embedder_elmo._elmo._elmo_lstm._token_embedder"
_STACK = "text_field_embedder.token_embedder_elmo._elmo._elmo_lstm._elmo_lstm"
_BIAS = "lstm.0.bias"
NUM_STRINGS = {
    "words.json": len(SPECIALS) + len(WORDS),
    "characters.json": len(SPECIALS) + 2 + len(CHARACTERS),
}

NATIVE = [
    Broken("model_type bert", partial(config, path="model_type", value="bert"), ("model_type",)),
    Broken("model_type absent", partial(config, path="model_type", value=None), ("model_type",)),
    Broken("format 2", partial(config, path="format", value=2), ("format 2", "storage None")),
    Broken("format 3", partial(config, path="format", value=3), ("format 3", "upgrade")),
    Broken("format absent", partial(config, path="format", value=None), ("format None",)),
    Broken("format true", partial(config, path="format", value=True), ("format True",)),
    Broken("unknown field", partial(config, path="lstm.layers", value=2), ("lstm.layers",)),
    Broken("wrong type", partial(config, path="lstm.cell_dim", value="ten"), ("lstm.cell_dim",)),
    Broken("wrong value", partial(config, path="lstm.cell_dim", value=-1), ("cell_dim", "-1")),
    Broken("null lstm", partial(config, path="lstm", value=None), ("lstm",)),
    Broken("nothing to read", partial(config, path="char_cnn", value=None), ("char_cnn",)),
    Broken(
        "unknown inventory",
        partial(config, path="char_cnn.inventory", value="kana"),
        ("inventory",),
    ),
    Broken(
        "unknown tokenizer",
        partial(config, path="text.tokenizer", value="wordpiece"),
        ("wordpiece",),
    ),
    Broken("another size", partial(config, path="lstm.cell_dim", value=11), ("lstm.0", "(2, 44")),
    Broken("more layers", partial(config, path="lstm.num_layers", value=3), ("lstm.2", "lacks")),
    Broken("fewer layers", partial(config, path="lstm.num_layers", value=1), ("lstm.1",)),
    Broken(
        "words without a vocabulary",
        partial(config, path="words", value={"num_words": 3, "dim": 2}),
        ("words.json",),
    ),
    Broken(
        "code points without an inventory",
        partial(config, path="char_cnn.inventory", value="unicode"),
        ("characters.json",),
    ),
    Broken("no config", partial(content, name="config.json", text=None), ("config.json",)),
    Broken("config cut", partial(content, name="config.json", text="{"), ("config.json", "JSON")),
    Broken("config a list", partial(content, name="config.json", text="[]"), ("config.json",)),
    *(
        Broken(
            f"safetensors cut to {share}", partial(cut_tensors, share=share), ("model.safetensors",)
        )
        for share in (0, 0.0001, 0.01, 0.5, 0.999)
    ),
    Broken(
        "safetensors is a git-lfs pointer",
        partial(content, name="model.safetensors", text=LFS_POINTER),
        ("model.safetensors",),
    ),
    *(
        Broken(f"{file}: {name}", partial(tensors, name=f"{file}.safetensors", edit=edit), message)
        for file, name, edit, message in (
            ("model", "missing", lambda values: values.pop(_BIAS), (_BIAS, "lacks")),
            ("model", "more", put("lstm.9.bias", torch.ones(2)), ("lstm.9.bias",)),
            ("model", "shape", put(_BIAS, torch.ones(2, 41)), (_BIAS, "(2, 41)", "(2, 40)")),
            ("model", "nan", put(_BIAS, torch.full((2, 40), torch.nan)), (_BIAS, "NaN")),
            ("model", "integers", put(_BIAS, torch.ones(2, 40).int()), (_BIAS, "int32")),
            ("state", "missing", lambda values: values.pop("cell"), ("state.safetensors", "cell")),
            ("state", "shape", put("cell", torch.ones(2, 2, 1, 3)), ("state.safetensors", "cell")),
            ("state", "nan", put("hidden", torch.full((2, 2, 1, 6), torch.nan)), ("state", "NaN")),
            ("mixes", "missing", lambda values: values.pop("default.gamma"), ("default.gamma",)),
            ("mixes", "shape", put("default.weights", torch.ones(4)), ("default", "4", "3")),
            ("mixes", "matrix", put("default.weights", torch.ones(3, 1)), ("default",)),
            ("pooling", "missing", lambda values: values.pop("means"), ("lacks means",)),
            ("pooling", "less", lambda values: values.pop("directions"), ("lacks directions",)),
            ("pooling", "shape", put("means", torch.ones(3, 3)), ("means", "(3, 3)")),
            ("pooling", "vector", put("directions", torch.ones(3)), ("directions", "(3,)")),
            ("pooling", "nan", put("means", torch.full((3, 12), torch.nan)), ("means", "NaN")),
            ("pooling", "zero", put("scales", torch.zeros(3)), ("scales", "above 0")),
            ("mixes", "nan", put("default.gamma", torch.tensor(torch.nan)), ("default", "NaN")),
        )
    ),
    *(
        Broken(
            f"pooling.json: {text}",
            partial(content, name="pooling.json", text=text, extras=True),
            ("pooling.json", expected),
        )
        for text, expected in (
            (None, "lacks"),
            ("[]", "JSON object"),
            ("{}", "weights None"),
            ('{"weights": [1]}', "expected an object of numbers"),
            *(
                (f'{{"weights": {{"the": {weight}}}}}', "above 0 and at most 1")
                for weight in ("0", "1.5", "NaN", "true", "null", '"1"', "1e999")
            ),
        )
    ),
    *(
        Broken(
            f"{name}: {text and text[:12]}",
            partial(content, name=name, text=text, kind="unicode"),
            (name, expected),
        )
        for name in NUM_STRINGS
        for text, expected in (
            (None, ""),
            ("[", "JSON"),
            ("{}", "list"),
            ("[1, 2]", "strings"),
            ('["<oov>"]', "1"),
            (json.dumps([f"{i}" for i in range(NUM_STRINGS[name])]), "lacks <"),
        )
    ),
]

MANY_LANGS = [
    *(
        Broken(
            f"ELMoForManyLangs without {name}",
            partial(many_langs, edit=partial(remove, name=name)),
            (name,),
        )
        for name in ("token_embedder.pkl", "char.dic", "word.dic", "config.json")
    ),
    *(
        Broken(
            f"ELMoForManyLangs {section}.{key} {value}",
            partial(many_langs, edit=setting(section, key, value)),
            ("cnn_tiny.json", expected),
        )
        for section, key, value, expected in (
            ("encoder", "name", "lstm", "encoder.name"),
            ("encoder", "name", 3, "encoder.name"),
            ("encoder", "dim", "ten", "encoder.dim"),
            ("encoder", "dim", 10.5, "encoder.dim"),
            ("encoder", "dim", None, "encoder.dim"),
            ("encoder", "n_layers", 0, "num_layers"),
            ("encoder", "", [], "encoder.dim"),
            ("encoder", "", 3, "encoder.dim"),
            ("encoder", "cell_clip", "3", "encoder.cell_clip"),
            ("token_embedder", "filters", [[1, 2, 3]], "token_embedder.filters"),
            ("token_embedder", "filters", ["ab"], "token_embedder.filters"),
            ("token_embedder", "filters", None, "token_embedder.filters"),
            ("token_embedder", "char_dim", "3", "token_embedder.char_dim"),
            ("token_embedder", "word_dim", [4], "token_embedder.word_dim"),
            ("token_embedder", "activation", "gelu", "activation"),
            ("token_embedder", "n_highway", "2", "token_embedder.n_highway"),
            ("token_embedder", "max_characters_per_token", "50", "max_characters_per_token"),
            ("token_embedder", "", "cnn", "a character CNN, a word vocabulary, or both"),
        )
    ),
    *(
        Broken(
            f"ELMoForManyLangs {section}.{key} = {value}, unlike its tensors",
            partial(many_langs, edit=setting(section, key, value)),
            message,
        )
        for section, key, value, message in (
            ("encoder", "dim", 11, ("forward_layer_0.input_linearity.weight", "(44, 6)")),
            ("encoder", "projection_dim", 7, ("projection.weight", "(7, 16)")),
            ("encoder", "n_layers", 3, ("forward_layer_2", "lacks")),
            ("encoder", "n_layers", 1, ("forward_layer_1", "n_layers = 1")),
            ("token_embedder", "n_highway", 3, ("highways._layers.2", "lacks")),
            ("token_embedder", "char_dim", 4, ("char_emb_layer.embedding.weight", ", 4)")),
            ("token_embedder", "word_dim", 5, ("word_emb_layer.embedding.weight", "(11, 5)")),
            ("token_embedder", "filters", [[1, 3], [2, 4], [3, 6]], ("convolutions.2.weight",)),
        )
    ),
    *(
        Broken(
            f"ELMoForManyLangs {name}: {text!r}",
            partial(many_langs, edit=partial(overwrite, name=name, text=text)),
            (name, *message),
        )
        for name, text, message in (
            ("char.dic", b"", ()),
            ("char.dic", b"a\tb\n", ("line 1",)),
            ("char.dic", b"a\t0\nb\t2\n", ("0 to 1",)),
            ("char.dic", b"a\t0\nb\t0\n", ("line 2", "0")),
            ("char.dic", b"a\t0\nb\t1\n", ("<oov>",)),
            ("char.dic", b"\xff\t0\n", ("UTF-8",)),
            ("word.dic", b"the\t0\n", ("<oov>",)),
            ("encoder.pkl", b"", ()),
            ("encoder.pkl", b"hello", ()),
            ("encoder.pkl", LFS_POINTER.encode(), ()),
            ("encoder.pkl", pickle.dumps([1, 2], protocol=2), ()),
            ("encoder.pkl", pickle.dumps({"a": 1}, protocol=2), ()),
        )
    ),
    *(
        Broken(
            f"ELMoForManyLangs {name} of shape {tuple(value.shape)}",
            partial(many_langs, edit=state(file, name, value)),
            (name,),
        )
        for file, name, value in (
            ("encoder.pkl", "forward_layer_0.input_linearity.weight", torch.ones(3)),
            ("encoder.pkl", "backward_layer_1.state_linearity.bias", torch.ones(2)),
            ("encoder.pkl", "backward_layer_1.state_projection.weight", torch.ones(())),
            ("token_embedder.pkl", "highways._layers.0.weight", torch.ones(1, 12)),
            ("token_embedder.pkl", "highways._layers.1.bias", torch.ones(25)),
            ("token_embedder.pkl", "convolutions.0.weight", torch.ones(2)),
        )
    ),
]

ALLENNLP = [
    Broken("AllenNLP without ELMo", partial(allennlp, edit=dict.clear), ("without ELMo",)),
    Broken("AllenNLP with other options", allennlp_options, ("lstm", "num_layers=3")),
    *(
        Broken(
            f"AllenNLP {name.rpartition('_elmo_lstm.')[2]} of shape {tuple(value.shape)}",
            partial(allennlp, edit=put(name, value)),
            (name,),
        )
        for name, value in (
            (f"{_ENCODER}._char_embedding_weights", torch.ones(262)),
            (f"{_ENCODER}._char_embedding_weights", torch.ones(100, 4)),
            (f"{_ENCODER}.char_conv_1.weight", torch.ones(5)),
            (f"{_ENCODER}.char_conv_1.weight", torch.ones(5, 3, 2)),
            (f"{_ENCODER}.char_conv_1.bias", torch.ones(6)),
            (f"{_ENCODER}._highways._layers.0.weight", torch.ones(1)),
            (f"{_ENCODER}._projection.weight", torch.ones(6, 14)),
            (f"{_STACK}.forward_layer_0.state_linearity.weight", torch.ones(40)),
            (f"{_STACK}.forward_layer_0.state_linearity.weight", torch.ones(41, 6)),
            (f"{_STACK}.backward_layer_1.state_linearity.bias", torch.ones(41)),
        )
    ),
    *(
        Broken(
            f"AllenNLP without {name.rpartition('_elmo_lstm.')[2]}",
            partial(allennlp, edit=partial(drop, name=name)),
            (name,),
        )
        for name in (
            f"{_ENCODER}._projection.bias",
            f"{_STACK}.forward_layer_0.state_linearity.weight",
            f"{_STACK}.backward_layer_1.input_linearity.weight",
        )
    ),
    Broken(
        "AllenNLP with a mix of two gammas",
        partial(
            allennlp,
            edit=put("text_field_embedder.token_embedder_elmo._elmo.scalar_mix_0.gamma",
                     torch.ones(2)),
        ),
        ("scalar_mix_0.gamma",),
    ),
    Broken(
        "AllenNLP with a mix of two layers",
        partial(
            allennlp,
            edit=lambda values: values.pop(
                "text_field_embedder.token_embedder_elmo._elmo.scalar_mix_0.scalar_parameters.2"
            ),
        ),
        ("scalar_mix_0", "2", "3"),
    ),
]  # fmt: skip

OTHERS = [
    Broken("empty directory", lambda folder: folder, ("no known model",)),
    Broken("directory of text", within("notes.txt", b"hello"), ("no known model",)),
    Broken("directory of json", within("config.json", b"{}"), ("no known model",)),
    Broken("several weights", several_weights, ("more.hdf5", "weights.hdf5")),
    Broken("text file", write("model.txt", b"hello\n"), ("model.txt", "no known model file")),
    Broken("empty file", write("model", b""), ("model", "no known model file")),
    Broken("zip that is text", write("model.zip", b"hello\n"), ("model.zip", "damaged")),
    Broken("tar that is text", write("model.tar.gz", b"hello\n"), ("model.tar.gz", "damaged")),
    Broken("path that is missing", lambda folder: folder / "model", ("model does not exist",)),
    Broken("weights that are missing", lambda folder: folder / "a.hdf5", ("does not exist",)),
]
