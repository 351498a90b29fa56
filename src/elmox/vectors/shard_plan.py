"""One output by many processes: parts of a text, embedded independently and merged.

The text is divided into blocks (`text.lines.block_starts`). Each becomes one Parquet file in the
folder `OUTPUT.shards`:

    part-00000-of-00016.parquet, part-00001-of-00016.parquet, ...

A part appears under its name when it is complete, and stores the digest of its job. So the folder
is the only record of what is done: parts may be written in any order, by any process on any
machine, twice even, and a later process writes those that are missing. The plain command
divides the text at the same places, so the merged parts are its output, bit for bit.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from elmox.errors import ElmoxError
from elmox.io.text_files import STDIN
from elmox.text.lines import Position
from elmox.vectors.files import (
    VectorWriter,
    format_of,
    open_vectors,
    open_writer,
    stored_identity,
    whole_job,
)
from elmox.vectors.layout import IDENTITY_KEY, Layout
from elmox.vectors.parquet import part_name, read_rows, tokens_of_entries
from elmox.vectors.workspace import check_replaceable, digest


@dataclass(frozen=True)
class ShardPlan:
    """The parts of an output, and where they are; needs neither the model nor the text.

    Attributes:
        output: the output that the parts are merged to.
        layout: shape and dtype of the entries.
        job: what identifies the job.
        about: the description for readers.
        part_bytes: size of the parts of the plain command, which is part of its identity.
        starts: the beginning of each part in the text.
    """

    output: Path
    layout: Layout
    job: dict[str, Any]
    about: dict[str, Any]
    part_bytes: int
    starts: Sequence[Position]

    @property
    def num_parts(self) -> int:
        """Number of parts."""
        return len(self.starts)

    @property
    def folder(self) -> Path:
        """The folder of the parts."""
        return Path(f"{self.output}.shards")

    def path(self, number: int) -> Path:
        """Return the path of a part."""
        return self.folder / part_name(number, self.num_parts)

    def identity(self, number: int) -> str:
        """Return the digest that a part stores."""
        return digest({**self.job, "part": [number, self.num_parts]})

    def part_meta(self, number: int) -> dict[str, Any] | None:
        """Return the metadata of a part; None if it is not written yet.

        Raises:
            ElmoxError: if it belongs to another job.
        """
        path = self.path(number)
        if not path.exists():
            return None
        with open_vectors(path) as vectors:
            meta = vectors.meta
        if meta.get(IDENTITY_KEY) != self.identity(number):
            raise ElmoxError(
                f"{path} belongs to another job (another text, model or other options): delete "
                f"{self.folder} to start again"
            )
        return meta

    def is_merged(self, force: bool = False) -> bool:
        """Return whether the output is complete; refuse another one without `force`."""
        format = format_of(self.output)
        job = whole_job(self.job, format, self.layout, self.part_bytes)
        if stored_identity(self.output) == digest(job):
            return True
        check_replaceable(self.output, force)
        return False

    def missing(self, numbers: Sequence[int] | None = None) -> list[int]:
        """Return the parts that are not written yet, by default of all."""
        todo = range(self.num_parts) if numbers is None else numbers
        return [number for number in todo if self.part_meta(number) is None]

    def shard(self, index: int, num_shards: int) -> range:
        """Return the parts of shard `index` of `num_shards`; the first index is 1."""
        if not 1 <= index <= num_shards:
            raise ElmoxError(
                f"shard {index}/{num_shards}: expected 1/{num_shards} to {num_shards}/{num_shards}"
            )
        bounds = [self.num_parts * i // num_shards for i in (index - 1, index)]
        return range(*bounds)


def check_divisible(source: str | Path, output: str | Path) -> None:
    """Refuse an input or an output that has no shards; needs neither the model nor the text."""
    if str(source) == STDIN:
        raise ElmoxError("stdin cannot be divided into shards: give a file")
    if format_of(output) == "jsonl":
        raise ElmoxError(
            f"{output}: JSON lines are not written in shards: use .parquet, .hdf5 or a "
            "directory of npy shards"
        )


def check_output(output: Path, force: bool) -> None:
    """Refuse an existing output that cannot be the one of any job, unless `force` is set.

    One that stores the identity of a job may be complete: only `ShardPlan.is_merged` can decide.
    """
    if stored_identity(output) is None:
        check_replaceable(output, force)


def merge(plan: ShardPlan, force: bool = False) -> tuple[int, int]:
    """Write the output from its parts, and remove these; return its entries and tokens.

    Args:
        plan: the parts; all of them must be there, unless the output is complete already.
        force: replace an existing output.
    """
    with open_writer(
        plan.output,
        layout=plan.layout,
        job=plan.job,
        about=plan.about,
        force=force,
        part_bytes=plan.part_bytes,
    ) as writer:
        if not writer.is_whole:
            _require_parts(plan)
            _write(plan, writer)
    with open_vectors(plan.output) as vectors:
        counts = int(vectors.meta["num_entries"]), int(vectors.meta["num_tokens"])
    if plan.folder.exists():
        shutil.rmtree(plan.folder)
    return counts


def _require_parts(plan: ShardPlan) -> None:
    missing = plan.missing()
    if missing:
        raise ElmoxError(
            f"{plan.folder}: {len(missing)} of {plan.num_parts} parts are missing, the first is "
            f"{part_name(missing[0], plan.num_parts)}: embed the missing shards"
        )


def _write(plan: ShardPlan, writer: VectorWriter) -> None:
    paths = [plan.path(number) for number in range(plan.num_parts)]
    if format_of(plan.output) == "parquet":
        metas = [plan.part_meta(number) or {} for number in range(plan.num_parts)]
        counts = [sum(meta[key] for meta in metas) for key in ("num_entries", "num_tokens")]
        rows = chain.from_iterable(read_rows(path, plan.layout) for path in paths)
        writer.write_parquet(rows, *counts)
        return
    num_done = writer.num_done
    for path in paths:
        num_tokens = tokens_of_entries(path)
        for i, first, num, flat, _ in read_rows(path, plan.layout):
            if i < num_done:
                continue
            if first == 0:  # a very long entry has several rows
                entry = writer.reserve(num_tokens[i])
            entry[..., first : first + num, :] = flat.reshape(plan.layout.shape(num))
