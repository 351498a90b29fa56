"""A text to an index: two passes in bounded memory, safe to kill.

The first pass counts words. After it every use has its row in the file (`words.WordTable`), so that
the second pass, which embeds, needs no sorting at the end: vectors are collected up to
`buffer_bytes`, sorted by row and written to their places. Sentences are appended to files of their
own, which become the end of the index. All this is in `OUTPUT.partial`:

    job.json           the job (see `vectors.workspace`)
    counts.npz         the first pass
    joined             the future index
    sentence_*         the sentences so far
    progress.npz       how much of the text is in these files; written after them

An interrupted run continues at its last `progress.npz`: whatever was written after it is written
again, to the same places.
"""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from elmox.elmo import Elmo
from elmox.errors import Argument, ArgumentError, ElmoxError, require_at_least
from elmox.inference.layer_choice import Layers, choose_layers
from elmox.io.files import writing
from elmox.io.text_files import STDIN
from elmox.search import MAX_PER_WORD, MIN_COUNT
from elmox.search.arrays import read_arrays, write_arrays
from elmox.search.index_file import VERSION, IndexFile
from elmox.search.index_writer import IndexWriter, Rows
from elmox.search.model import model_digest
from elmox.search.quantized import quantize
from elmox.search.words import WordOptions, WordTable
from elmox.text.batches import in_chunks
from elmox.text.inputs import Text
from elmox.text.lines import Line
from elmox.text.offsets import Offsets, joined_offsets
from elmox.vectors.files import resolved_output
from elmox.vectors.inputs import FileInput, Input, SentenceInput
from elmox.vectors.job import fingerprint
from elmox.vectors.layout import IDENTITY_KEY
from elmox.vectors.workspace import Workspace

BUFFER_BYTES = 2**26  # of rows that are sorted at a time
CHUNK_BYTES = {"cpu": 2**25, "cuda": 2**29}  # of float32 vectors held at a time
LINES_TOKENS = 2**16  # of lines that are read at a time


@dataclass(frozen=True)
class IndexSummary:
    """Counts and timing of one run of `build_index`.

    Attributes:
        num_uses, num_words, num_sentences: of the index.
        num_lines: lines of the text.
        num_resumed: lines that an interrupted run had finished.
        num_embedded: tokens that this run embedded.
        seconds: duration of this run.
        was_complete: whether the index was complete before this run.
    """

    num_uses: int
    num_words: int
    num_sentences: int
    num_lines: int
    num_resumed: int
    num_embedded: int
    seconds: float
    was_complete: bool = False


class IndexOptions(TypedDict, total=False):
    """Options of `OccurrenceIndex.build`, which describes them."""

    layers: Layers
    words: Iterable[str] | None
    stop_words: Iterable[str] | None
    min_count: int
    max_per_word: int | None
    tokenized: bool
    force: bool
    batch_tokens: int | None
    show_progress_bar: bool


def build_index(
    elmo: Elmo,
    text: str | Path | Sequence[Text],
    output: str | Path,
    *,
    layers: Layers = "top",
    words: Iterable[str] | None = None,
    stop_words: Iterable[str] | None = None,
    min_count: int = MIN_COUNT,
    max_per_word: int | None = MAX_PER_WORD,
    tokenized: bool = False,
    force: bool = False,
    batch_tokens: int | None = None,
    buffer_bytes: int = BUFFER_BYTES,
    show_progress_bar: bool = False,
) -> IndexSummary:
    """Write an index of the uses of words in a text; see `OccurrenceIndex.build`."""
    began = time.monotonic()
    options = WordOptions.of(words, stop_words, min_count, max_per_word)
    require_at_least(1, "buffer_bytes", buffer_bytes)
    if not choose_layers(layers, elmo.num_layers, elmo.mixes).single:
        raise ArgumentError(
            "{}: expected one vector per word, such as top, average or 1",
            Argument("layers", layers),
        )
    source = _input(elmo, text, tokenized)
    identity = source.identity()
    if identity is None:
        raise ElmoxError("the text is read twice: give a regular file, or a list of sentences")
    settings = {**source.settings, "layers": repr(layers), "state": elmo.state}
    job = {**settings, **options.job(), "input": identity, "model": fingerprint(elmo)}
    workspace = Workspace(
        resolved_output(output), "joined", {**job, "index": VERSION}, _stored_meta, force=force
    )
    try:
        was_complete = workspace.is_published
        num_resumed = num_embedded = 0
        if workspace.num_entries is None:
            meta = {
                "version": VERSION,
                "model": _model_meta(elmo, layers),
                "text": "" if isinstance(source, SentenceInput) else Path(str(text)).name,
                **_options_meta(options),
                IDENTITY_KEY: workspace.identity,
            }
            builder = _Builder(elmo, layers, source, workspace, batch_tokens, show_progress_bar)
            num_resumed, num_embedded = builder.run(options, meta, buffer_bytes)
        workspace.publish()
    finally:
        workspace.release()
    return _summary(Path(output), began, num_resumed, num_embedded, was_complete)


def _summary(
    path: Path, began: float, num_resumed: int, num_embedded: int, was_complete: bool
) -> IndexSummary:
    index = IndexFile(path)
    return IndexSummary(
        index.num_uses,
        index.num_words,
        index.num_sentences,
        index.meta["num_lines"],
        num_resumed,
        num_embedded,
        time.monotonic() - began,
        was_complete,
    )


def _input(elmo: Elmo, text: str | Path | Sequence[Text], tokenized: bool) -> Input:
    if not isinstance(text, str | Path):
        return SentenceInput(elmo, text, None)
    if str(text) == STDIN:
        raise ElmoxError("the text is read twice, which stdin does not allow: give a file")
    return FileInput(elmo, str(text), tokenized)


def _model_meta(elmo: Elmo, layers: Layers) -> dict[str, Any]:
    """Return what a search needs to embed its query in the same way."""
    return {
        "description": elmo.description,
        "digest": model_digest(elmo, layers),
        "layers": layers,
        "state": elmo.state,
        "reference": None if elmo.reference is None else asdict(elmo.reference),
    }


def _options_meta(options: WordOptions) -> dict[str, Any]:
    return {"min_count": options.min_count, "max_per_word": options.max_per_word}


def _stored_meta(path: Path) -> Mapping[str, Any]:
    """Return the description of an existing index; empty if it is not one."""
    try:
        return IndexFile(path).meta
    except ElmoxError:
        return {}


class _Builder:
    """Both passes over a text."""

    def __init__(
        self,
        elmo: Elmo,
        layers: Layers,
        source: Input,
        workspace: Workspace,
        batch_tokens: int | None,
        show_progress_bar: bool,
    ) -> None:
        self._elmo, self._layers, self._source = elmo, layers, source
        self._workspace = workspace
        self._batch_tokens = batch_tokens
        self._quiet = not show_progress_bar
        chunk_bytes = CHUNK_BYTES.get(elmo.device.type, CHUNK_BYTES["cpu"])
        self._chunk_tokens = max(1, chunk_bytes // (4 * elmo.dim))

    def run(
        self, options: WordOptions, meta: Mapping[str, Any], buffer_bytes: int
    ) -> tuple[int, int]:
        """Complete the result in the workspace.

        Returns:
            The number of lines that earlier runs had finished, and of tokens embedded now.
        """
        try:
            table, num_tokens, num_lines = self._count(options)
        except ElmoxError:
            self._workspace.discard()  # another text or other options are another job
            raise
        directory = self._workspace.directory
        num_embedded = 0
        with (
            writing(directory, resumable=True),
            IndexWriter(directory, table, self._elmo.dim, buffer_bytes) as writer,
            tqdm(
                total=num_tokens, unit="tok", unit_scale=True, desc="embedding", disable=self._quiet
            ) as progress,
        ):
            num_resumed = writer.num_lines
            for group in self._groups(table, writer, progress):
                num_embedded += sum(len(tokens) for tokens, _ in group)
                writer.add(self._embedded(group))
            num_uses = int(table.starts[-1])
            writer.finish({**meta, "num_entries": num_uses, "num_lines": num_lines})
        self._workspace.complete(num_uses)
        return num_resumed, num_embedded

    def _count(self, options: WordOptions) -> tuple[WordTable, int, int]:
        """Return the chosen words, and the number of tokens and lines of the text."""
        path = self._workspace.directory / "counts.npz"
        if not path.exists():
            counts: Counter[str] = Counter()
            num_tokens = num_lines = 0
            with tqdm(unit="tok", unit_scale=True, desc="counting", disable=self._quiet) as bar:
                for line in self._source.lines():
                    for tokens in line.sentences:
                        counts.update(map(str.casefold, tokens))
                    bar.update(line.num_tokens)
                    num_tokens += line.num_tokens
                    num_lines += 1
            table = options.chosen(counts)
            with writing(path, resumable=True):
                write_arrays(
                    path,
                    counts=table.counts,
                    words=np.frombuffer(json.dumps(table.words).encode(), np.uint8),
                    totals=np.array([num_tokens, num_lines]),
                )
        stored = read_arrays(path)
        words = json.loads(stored["words"].tobytes())
        num_tokens, num_lines = stored["totals"].tolist()
        return WordTable(words, stored["counts"], options.max_per_word), num_tokens, num_lines

    def _groups(
        self, table: WordTable, writer: IndexWriter, progress: "tqdm[Any]"
    ) -> Iterator[list[tuple[Sequence[str], "_Kept"]]]:
        """Yield groups of sentences with uses to keep; a group ends at the end of a line."""
        group: list[tuple[Sequence[str], _Kept]] = []
        num_pending = 0
        lines = in_chunks(
            self._source.lines(skip=writer.num_lines),
            lambda line: line.num_tokens + 1,
            LINES_TOKENS,
        )
        for chunk in lines:
            selected = list(_selected(chunk, writer.num_lines, table, writer.seen))
            writer.num_lines += len(chunk)
            progress.update(sum(line.num_tokens for line in chunk))
            group += selected
            num_pending += sum(len(tokens) for tokens, _ in selected)
            if num_pending >= self._chunk_tokens:
                yield group
                group, num_pending = [], 0
        yield group

    def _embedded(self, group: list[tuple[Sequence[str], "_Kept"]]) -> Rows:
        """Return the rows of a group of sentences."""
        vectors, scales = np.empty((0, self._elmo.dim), np.int8), np.empty(0, np.float32)
        if group:
            encoded = self._elmo.encode_tokens(
                [tokens for tokens, _ in group],
                layers=self._layers,
                batch_tokens=self._batch_tokens,
                show_progress_bar=False,
                convert_to_tensor=True,
            )
            chosen = [
                sentence[torch.tensor(kept.positions, device=sentence.device)]
                for sentence, (_, kept) in zip(encoded, group, strict=True)
            ]
            vectors, scales = quantize(torch.cat(chosen))
        return Rows(
            rows=np.array([row for _, kept in group for row in kept.rows], np.int64),
            vectors=vectors,
            scales=scales,
            sentences=[(kept.text.encode(), kept.line, kept.offset) for _, kept in group],
            tokens=[kept.tokens() for _, kept in group],
        )


@dataclass(frozen=True)
class _Kept:
    """The uses to keep in one sentence.

    Attributes:
        positions: indexes of the tokens.
        rows: their rows in the index.
        text: the sentence.
        line: number of its line, from 0.
        offset: start of the sentence in its line, in characters.
        offsets: start and end of every token in the sentence, in characters.
    """

    positions: list[int]
    rows: list[int]
    text: str
    line: int
    offset: int
    offsets: list[Offsets]

    def tokens(self) -> list[tuple[int, int, int]]:
        """Return the index of each use among the tokens, and its start and end in bytes."""
        text = self.text
        ascii_only = text.isascii()
        values = []
        for position in self.positions:
            start, end = self.offsets[position]
            if not ascii_only:
                size = len(text[start:end].encode())
                start = len(text[:start].encode())
                end = start + size
            values.append((position, start, end))
        return values


def _selected(
    lines: Sequence[Line], first: int, table: WordTable, seen: NDArray[np.int64]
) -> Iterator[tuple[Sequence[str], _Kept]]:
    """Yield the sentences of some lines that have uses to keep; `first` numbers the lines."""
    numbers = np.array(
        [
            number
            for line in lines
            for tokens in line.sentences
            for number in table.of_tokens(tokens)
        ],
        np.int64,
    )
    is_kept = numbers >= 0
    is_kept[is_kept], rows = table.rows(numbers[is_kept], seen)
    row_of = np.full(len(numbers), -1)
    row_of[is_kept] = rows
    start = 0
    for line_number, line in enumerate(lines, start=first):
        if not is_kept[start : start + line.num_tokens].any():
            start += line.num_tokens
            continue
        for tokens, text, offset, offsets in _sentences(line, line_number):
            part = row_of[start : start + len(tokens)]
            start += len(tokens)
            positions = np.flatnonzero(part >= 0)
            if len(positions):
                kept = _Kept(
                    positions.tolist(), part[positions].tolist(), text, line_number, offset, offsets
                )
                yield tokens, kept


def _sentences(line: Line, number: int) -> Iterator[tuple[list[str], str, int, list[Offsets]]]:
    """Yield the sentences of a line: tokens, text, its start in the line, offsets of its tokens."""
    try:
        offsets = line.offsets()
    except ElmoxError as error:
        raise ElmoxError(f"line {number + 1}: {error}") from error
    for i, tokens in enumerate(line.sentences):
        if offsets is None or line.text is None:
            yield tokens, " ".join(tokens), 0, joined_offsets(tokens)
        else:
            start, end = offsets[i][0][0], offsets[i][-1][1]
            yield (
                tokens,
                line.text[start:end],
                start,
                [(a - start, b - start) for a, b in offsets[i]],
            )
