"""`elmox bench embed`: tokens per second from lists of words to vectors, and to a file of them.

The floor of a token includes the boundaries of its sentence; with a cold cache also the distinct
words. The floor of a file is the longer of arithmetic and writing, where writing is the same number
of bytes written sequentially, with a sync as often as `embed_file` has one.
"""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, cast

from elmox.bench.allennlp import AllenNlp
from elmox.bench.floor import ProductRate, lstm_work, product_rate, word_work
from elmox.bench.peers import Notes
from elmox.bench.table import Column, Report, speed, speed_columns
from elmox.bench.timing import Work, wall_seconds
from elmox.elmo import Elmo
from elmox.kernels.paths import inference_path, like, uses_table, word_inference_path
from elmox.model.lstm import LstmLayer
from elmox.pretrained.ai2 import write_ai2
from elmox.vectors.embed import embed_file
from elmox.vectors.formats import FORMATS, Format
from elmox.vectors.job import default_part_bytes

Sentences = list[list[str]]

PEER_BATCH = 64  # sentences per batch of AllenNLP
MAX_SINGLE = 100  # sentences that are embedded one at a time


@dataclass(frozen=True)
class EmbedCases:
    """The cases to measure.

    Attributes:
        sentences: tokenized sentences.
        repeats: number of runs; the median counts.
        one_at_a_time: also measure sentence by sentence.
        file: also write a file of this format.
        folder: directory of that file, which is removed again.
        peers: also measure AllenNLP, if it is installed.
    """

    sentences: Sentences
    repeats: int
    one_at_a_time: bool = False
    file: Format | None = None
    folder: Path = Path()
    peers: bool = True


def bench_embed(elmo: Elmo, cases: EmbedCases) -> Report:
    """Measure a model on some sentences."""
    rate, notes = product_rate(elmo.device, elmo.dtype), Notes()
    word_dtype = elmo.reader.bilm.dtype  # not the LSTMs' where those are int8
    word_rate = rate if word_dtype == elmo.dtype else product_rate(elmo.device, word_dtype)
    bench = _Embedding(elmo, cases, rate, word_rate)
    rows = bench.cold_and_warm()
    if cases.one_at_a_time:
        rows.append(bench.one_at_a_time())
    if cases.file is not None:
        rows += bench.to_file(cases.file)
        every = default_part_bytes(elmo) >> 20
        notes.add(f"plain write: as many random bytes, with a sync every {every} MB.")
    if cases.peers:
        for row in notes.attempt("AllenNLP", bench.allennlp) or []:
            ratio = rows[0]["tokens_per_second"] / row["tokens_per_second"]
            rows.append({**row, "cold_ratio": ratio})
            notes.add(f"AllenNLP computes in float32, {PEER_BATCH} sentences per batch.")
    notes.add("cold, warm: with an empty and a filled word cache; elmox returns all layers.")
    facts = {
        "model": elmo.description,
        "sentences": len(cases.sentences),
        "tokens": sum(map(len, cases.sentences)),
        "distinct_words": len({word for sentence in cases.sentences for word in sentence}),
        "path_of_words": word_inference_path(like(elmo.device, elmo.dtype)),
        "path_of_LSTMs": bench.path(),
        "median_of": cases.repeats,
    }
    title = "Words to vectors"
    return Report("embed", title, elmo.device, rate, facts, _COLUMNS, rows, notes)


_COLUMNS = [
    Column("way", "way"),
    Column("tokens", "tokens", ","),
    *speed_columns("tokens", "time"),
    Column("bytes", "MB written", ",.1f", 1e-6),
    Column("bytes_per_second", "MB/s", ",.0f", 1e-6),
    Column("cold_ratio", "elmox cold / this", ".2f"),
]


class _Embedding:
    """A model and sentences, and the measurements on them."""

    def __init__(
        self, elmo: Elmo, cases: EmbedCases, rate: ProductRate, word_rate: ProductRate
    ) -> None:
        self._elmo, self._cases = elmo, cases
        self._rate, self._word_rate = rate, word_rate

    def path(self) -> str:
        """Return a description of the path that elmox chooses for the LSTMs."""
        layer = cast(LstmLayer, self._elmo.reader.bilm.lstm[0])
        return inference_path(like(self._elmo.device, self._elmo.dtype), layer.weights())

    def cold_and_warm(self) -> list[dict[str, Any]]:
        """Measure all sentences at once: with an empty word cache, then with a filled one."""
        sentences, elmo = self._cases.sentences, self._elmo

        def run() -> None:
            elmo.encode_tokens(sentences, layers="all")

        run()  # kernels are compiled and weights packed once
        cold, warm = [], []
        for _ in range(self._cases.repeats):
            elmo.reader.cache.clear()
            cold.append(self._seconds(run))
            warm.append(self._seconds(run))
        return [
            self._row("cold", sentences, median(cold), self._floor(sentences, cold=True)),
            self._row("warm", sentences, median(warm), self._floor(sentences, cold=False)),
        ]

    def one_at_a_time(self) -> dict[str, Any]:
        """Measure sentence by sentence, as in a service; the word cache is filled."""
        sentences = self._cases.sentences[:MAX_SINGLE]

        def run() -> None:
            for sentence in sentences:
                self._elmo.encode_tokens([sentence], layers="all")

        run()
        times = [self._seconds(run) for _ in range(self._cases.repeats)]
        floor = self._floor(sentences, cold=False)
        return self._row("one at a time, warm", sentences, median(times), floor)

    def to_file(self, format: Format) -> list[dict[str, Any]]:
        """Measure text file to vector file, once; then writing as many bytes."""
        with tempfile.TemporaryDirectory(dir=self._cases.folder) as name:
            folder = Path(name)
            text, output = folder / "text.txt", folder / f"out{FORMATS[format].suffixes[0]}"
            lines = (" ".join(sentence) for sentence in self._cases.sentences)
            text.write_text("\n".join(lines) + "\n", encoding="utf-8")
            self._elmo.reader.cache.clear()
            seconds = self._seconds(
                lambda: embed_file(self._elmo, str(text), output, tokenized=True)
            )
            num_bytes = _size(output)
            every = default_part_bytes(self._elmo)
            writing = self._seconds(lambda: write_plainly(folder / "plain", num_bytes, every))
        sentences = self._cases.sentences
        floor = max(writing, self._floor(sentences, cold=True))
        row = self._row(f"to {format}, cold", sentences, seconds, floor)
        plain = {"way": "plain write", "seconds": writing}
        return [
            {**row, "bytes": num_bytes, "bytes_per_second": num_bytes / seconds},
            {**plain, "bytes": num_bytes, "bytes_per_second": num_bytes / writing},
        ]

    def allennlp(self) -> list[dict[str, Any]]:
        """Measure AllenNLP's module on the same weights, in float32."""
        sentences = self._cases.sentences
        with tempfile.TemporaryDirectory() as name:
            weights = Path(name) / "weights.hdf5"
            model = self._elmo.checkpoint()
            tensors = {name: tensor.float().cpu() for name, tensor in model.tensors.items()}
            options = write_ai2(replace(model, tensors=tensors, softmax=None), weights)
            peer = AllenNlp(weights, options, self._elmo.device)
        rows = []
        for way, ordered in (
            ("AllenNLP, text order", sentences),
            ("AllenNLP, sorted by length", sorted(sentences, key=len)),
        ):
            batches = [ordered[i : i + PEER_BATCH] for i in range(0, len(ordered), PEER_BATCH)]
            times = [self._seconds(lambda b=batches: peer.run(b))  # type: ignore[misc]
                     for _ in range(self._cases.repeats)]  # fmt: skip
            rows.append(self._row(way, sentences, median(times), None))
        return rows

    def _seconds(self, work: Work) -> float:
        return wall_seconds(work, self._elmo.device)

    def _floor(self, sentences: Sentences, cold: bool) -> float:
        config, reader = self._elmo.config, self._elmo.reader
        num_positions = sum(len(sentence) + 2 for sentence in sentences)
        lstms = self._rate.seconds(num_positions * config.lstm.num_layers * lstm_work(config.lstm))
        if not cold:
            return lstms
        words = {word for sentence in sentences for word in sentence}
        table = reader.indexer([*words, reader.indexer.begin, reader.indexer.end])
        lengths = table.ids if table.spelling is None else table.spelling.lengths
        assert lengths is not None
        by_table = uses_table(like(self._elmo.device, self._elmo.dtype))
        return lstms + self._word_rate.seconds(word_work(config, lengths).inference(by_table))

    def _row(
        self, way: str, sentences: Sequence[Sequence[str]], seconds: float, floor: float | None
    ) -> dict[str, Any]:
        num_tokens = sum(map(len, sentences))
        return {
            "way": way,
            "tokens": num_tokens,
            **speed("tokens", num_tokens, seconds, floor),
        }


def write_plainly(path: Path, num_bytes: int, every: int) -> None:
    """Write random bytes sequentially, with a sync every so many bytes and at the end.

    The pieces are small enough to stay in a processor's cache.
    """
    piece = memoryview(os.urandom(2**20))
    with path.open("wb", buffering=0) as file:
        for start in range(0, num_bytes, len(piece)):
            file.write(piece[: num_bytes - start])
            if (start + len(piece)) % every == 0:
                os.fsync(file.fileno())
        os.fsync(file.fileno())


def _size(path: Path) -> int:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)
