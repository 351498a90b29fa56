"""`elmox bench`: how fast this machine is."""

import json
import platform
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmox.cli.model_options import Device, Json
from elmox.errors import ElmoxError

if TYPE_CHECKING:
    from elmox.elmo import Elmo

app = typer.Typer(
    help="Measure speed on this machine.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def _group() -> None:
    """Keeps `bench embed` a verb of its own while it is the only one."""


@app.command("embed")
def embed(
    model: Annotated[
        str | None, typer.Argument(help="A model; random weights of --size by default.")
    ] = None,
    size: Annotated[
        str, typer.Option(help="small, medium or original, for random weights.")
    ] = "small",
    text: Annotated[
        Path | None,
        typer.Option(
            help="A text file; Python's own documentation by default.", show_default=False
        ),
    ] = None,
    sentences: Annotated[int, typer.Option(help="Sentences to embed.", min=1)] = 500,
    repeats: Annotated[int, typer.Option(help="Runs of which the median counts.", min=1)] = 3,
    device: Device = None,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    as_json: Json = False,
) -> None:
    """Tokens per second of encode_tokens: all layers, word cache empty, then filled."""
    import torch

    from elmox.elmo import Elmo, default_device
    from elmox.model.init import random_checkpoint
    from elmox.text.sentences import split_sentences

    elmo = (
        Elmo.from_pretrained(model, device=device, dtype=dtype)
        if model
        else Elmo(random_checkpoint(size)).to(device or default_device(), dtype)
    )
    running = _read(text) if text else _documentation()
    split = [tokens for s in split_sentences(running) if (tokens := elmo.tokenize(s))][:sentences]
    if not split:
        raise ElmoxError(f"{text} holds no sentence: give a file of running text")
    num_tokens = sum(map(len, split))
    cold, warm = [], []
    for _ in range(repeats):
        elmo.reader.cache.clear()
        cold.append(_seconds(elmo, split))
        warm.append(_seconds(elmo, split))
    result = {
        "model": elmo.found,
        "device": str(elmo.device),
        "dtype": dtype,
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "sentences": len(split),
        "tokens": num_tokens,
        "tokens_per_second_cold": round(num_tokens / statistics.median(cold)),
        "tokens_per_second_warm": round(num_tokens / statistics.median(warm)),
    }
    if as_json:
        typer.echo(json.dumps(result))
        return
    for name, value in result.items():
        typer.echo(f"{name.replace('_', ' '):<26}{value}")


def _seconds(elmo: "Elmo", sentences: list[list[str]]) -> float:
    began = time.perf_counter()
    elmo.encode_tokens(sentences, layers="all")
    return time.perf_counter() - began


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ElmoxError(f"{path} is not UTF-8 (byte {error.start}): convert it first") from error


def _documentation() -> str:
    """Prose that every machine has."""
    from pydoc_data.topics import topics

    return "\n".join(topics.values())
