"""Embedding of single parts of a text; see `shard_plan`."""

from itertools import islice
from pathlib import Path

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.io.background import background_thread
from elmox.io.files import atomic_write
from elmox.io.parquet import load_pyarrow
from elmox.io.temporary import temporary_path
from elmox.kernels.derived import weights_fixed
from elmox.vectors.chunks import blocks_of
from elmox.vectors.files import resolved_output
from elmox.vectors.inputs import FileInput
from elmox.vectors.job import EmbedJob, EmbedOptions, default_part_bytes
from elmox.vectors.parquet import join
from elmox.vectors.parts import Parts
from elmox.vectors.shard_plan import ShardPlan, check_divisible


class ShardEmbedder:
    """Embeds parts of a text.

    Attributes:
        plan: the parts.
    """

    def __init__(
        self,
        elmo: Elmo,
        source: str | Path,
        output: str | Path,
        options: EmbedOptions,
        *,
        tokenized: bool = False,
        plan: ShardPlan | None = None,
    ) -> None:
        """Divide a text into parts.

        Args:
            elmo: the model.
            source: a text file, a .jsonl file or a .parquet file.
            output: the output of the merged parts: a .parquet or .hdf5 file, or a directory for
                npy shards.
            options: layers, dtype and batch.
            tokenized: lines are sentences of tokens with white space between them.
            plan: the parts, if another process has divided the text already.
        """
        load_pyarrow()
        check_divisible(source, output)
        input = FileInput(elmo, str(source), tokenized)
        self._job = EmbedJob(elmo, input, options)
        if plan is not None:
            self.plan = plan
            return
        if not self._job.is_repeatable:
            raise ElmoxError(f"{source} is not a regular file, so it has no shards: give a file")
        self.plan = ShardPlan(
            resolved_output(output),
            self._job.layout,
            self._job.values,
            self._job.about,
            default_part_bytes(elmo),
            input.blocks(self._job.block_size),
        )

    def embed(self, number: int) -> int:
        """Embed a part, unless it is there already; return its number of tokens."""
        plan = self.plan
        meta = plan.part_meta(number)
        if meta is not None:
            return int(meta["num_tokens"])
        plan.folder.mkdir(parents=True, exist_ok=True)
        path, first = plan.path(number), plan.starts[number]
        # Both names are this process's own, so that two that write the same part do not meet.
        with atomic_write(path) as target, temporary_path(path, directory=True) as scratch:
            parts = Parts(scratch, plan.layout, plan.part_bytes, first_entry=first.line)
            self._fill(parts, number)
            parts.seal()
            meta = plan.layout.meta(
                parts.num_entries, parts.num_tokens, plan.about, plan.identity(number), first.line
            )
            join(parts, meta, target)
        return parts.num_tokens

    def _fill(self, parts: Parts, number: int) -> None:
        job, embedder = self._job, self._job.embedder()
        starts = self.plan.starts
        lines = job.input.lines(starts[number])
        if number + 1 < len(starts):
            lines = islice(lines, starts[number + 1].line - starts[number].line)
        with background_thread() as background, weights_fixed():
            for block in blocks_of(lines, job.block_size):
                first = starts[number].line
                for _ in embedder.embed_block(block, first, 0, parts, background):
                    pass
