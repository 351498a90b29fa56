"""`elmox embed`: a text file to a file of vectors."""

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from elmox.cli.interruption import resumable
from elmox.cli.options import (
    TEXT_HELP,
    BatchTokens,
    ComputeOptions,
    FileType,
    FileTypeOption,
    Force,
    LayersOption,
    ModelArgument,
    ModelOptions,
    State,
    TextOptions,
    parse_layers,
)
from elmox.cli.shards import ShardOptions, embed_by_ray, embed_shard
from elmox.cli.verb import verb
from elmox.vectors.formats import OUTPUTS


@verb(
    "elmox embed english-small text.txt vectors.hdf5",
    "elmox embed english-small lines.jsonl vectors --layers average --dtype float16",
)
def command(
    model: ModelArgument,
    input: Annotated[str, typer.Argument(help=TEXT_HELP)],
    output: Annotated[
        Path,
        typer.Argument(
            help=f"{OUTPUTS[0].upper()}{OUTPUTS[1:]}.",
        ),
    ],
    layers: LayersOption = "all",
    dtype: FileTypeOption = FileType.float32,
    state: Annotated[State, "LSTM state that every sentence starts from."] = State.zero,
    force: Force = False,
    batch_tokens: BatchTokens = None,
    *,
    shards: ShardOptions,
    lines: TextOptions,
    files: ModelOptions,
    run: ComputeOptions,
) -> None:
    """Write the vectors of all tokens of a text file.

    OUTPUT has an entry for every line of INPUT, an empty one for an empty line. Entry 0, the first
    line, is elmox.open_vectors(OUTPUT)[0]. All layers are kept by default, so that they can be
    mixed later. An interrupted command continues when it is run again.
    """
    from elmox.io.text_files import STDIN

    if shards.is_divided:
        from elmox.vectors.ray import ShardJob

        job = ShardJob(
            model,
            input,
            str(output),
            parse_layers(layers),
            dtype.value,
            lines.tokenized,
            batch_tokens,
            files.loading(run, run.precision, state),
        )
        with resumable():
            if shards.ray is not None:
                embed_by_ray(job, shards, run, force)
            else:
                embed_shard(files.load(model, run, run.precision, state), job, shards, run, force)
        return
    from elmox.vectors.embed import embed_file

    elmo = files.load(model, run, run.precision, state)
    with nullcontext() if input == STDIN else resumable():  # stdin cannot be read a second time
        summary = embed_file(
            elmo,
            input,
            output,
            layers=parse_layers(layers),
            dtype=dtype.value,
            tokenized=lines.tokenized,
            force=force,
            batch_tokens=batch_tokens,
            show_progress_bar=run.show_progress_bar,
            log=run.log,
        )
    if run.as_json:
        run.result({"output": str(output), **asdict(summary)}, "")
    elif summary.was_complete:
        run.log(f"{output} is complete: {summary.num_lines} lines, no work left")
    else:
        resumed = f" ({summary.num_resumed} from an earlier run)" if summary.num_resumed else ""
        run.log(
            f"{summary.num_lines} lines{resumed} in {output}; {summary.num_tokens} tokens in "
            f"{summary.seconds:.1f} s, by {elmo.description}"
        )
