"""Measure a model stored at half and at a quarter of its size against the model in float32.

For each number format: bytes of its files, as they are and deflated as in a wheel; the cosine of
each token's vectors with those of the full model, layer by layer; perplexity by the full softmax,
state carried; and, if a treebank is given, the linear probe of parts of speech.

    python benchmarks/storage.py runs/english-original/best --out storage-original \
        --treebank en_ewt-ud-train.conllu.xz en_ewt-ud-dev.conllu.xz en_ewt-ud-test.conllu.xz
    python benchmarks/storage.py english-small --words 40000     # the bundled model is in float16
"""

import argparse
import json
import shlex
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bundled import MB, Limit, Sentences, file_sizes, first_words, layers_of, read_sentences, table
from machine import RESULTS, WIKI
from numpy.typing import NDArray

from elmox import Elmo
from elmox.bench.machine import machine_facts, machine_line
from elmox.inference.device import resolve_device
from elmox.io.conllu import read_conllu
from elmox.probes.pos.probe import PosOptions, probe_pos

DTYPES = ("float16", "int8")
WEIGHTS = "model.safetensors"


def token_cosines(a: NDArray[np.float32], b: NDArray[np.float32]) -> list[dict[str, float]]:
    """Mean and smallest cosine of each layer of two sets of vectors (L+1, N, D)."""
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    cosines = (a * b).sum(-1) / norms  # (L+1, N)
    return [{"mean": float(layer.mean()), "smallest": float(layer.min())} for layer in cosines]


def probe(elmo: Elmo, treebank: list[Path] | None, seeds: int) -> list[float] | None:
    """Accuracy of the probes of each layer on the treebank's test part, mean over seeds."""
    if treebank is None:
        return None
    parts = zip(("train", "dev", "test"), treebank, strict=True)
    sentences = {part: read_conllu(path) for part, path in parts}
    scores = probe_pos(elmo, sentences, PosOptions(num_seeds=seeds))
    return [statistics.fmean(score.test) for score in scores.layers if score.weights == "trained"]


def measure(model: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the measurements of the full model and of each number format."""
    device = str(resolve_device(arguments.device))
    full = Elmo.from_pretrained(model, device=device)
    text: Sentences = list(read_sentences(arguments.text, arguments.tokenized, full))
    some, evaluated = first_words(text, arguments.vectors), first_words(text, arguments.words)
    before = layers_of(full, some)
    measured: dict[str, Any] = {"tokens": before.shape[1], "formats": {}}
    with tempfile.TemporaryDirectory() as folder:
        for dtype in ("float32", *DTYPES):
            full.save_pretrained(Path(folder) / dtype, dtype=dtype)
            stored = Elmo.from_pretrained(Path(folder) / dtype, device=device)
            measured["formats"][dtype] = {
                "files": file_sizes(Path(folder) / dtype),
                "cosines": token_cosines(before, layers_of(stored, some)),
                "perplexity": stored.evaluate(evaluated).to_dict(),
                "probe": probe(stored, arguments.treebank, arguments.seeds),
            }
            print(f"{dtype} measured", file=sys.stderr)
    return measured


def change_of_perplexity(formats: dict[str, Any], dtype: str) -> float:
    """In percent of the full model's."""
    full, stored = (formats[name]["perplexity"]["perplexity"] for name in ("float32", dtype))
    return float(100 * (stored / full - 1))


def change_of_probe(formats: dict[str, Any], dtype: str) -> float | None:
    """The largest change of a layer's accuracy, in points; None if no treebank was given."""
    full, stored = (formats[name]["probe"] for name in ("float32", dtype))
    if full is None:
        return None
    return float(max((b - a for a, b in zip(full, stored, strict=True)), key=abs))


def deflated(files: dict[str, Any], *, softmax: bool) -> int:
    """Bytes in a wheel, with or without the softmax and its vocabulary."""
    left_out = () if softmax else ("softmax.safetensors", "vocab.txt")
    return int(sum(file["deflated"] for name, file in files.items() if name not in left_out))


def verdict(formats: dict[str, Any]) -> list[Limit]:
    """Return what 8 bits must hold, and whether it does."""
    int8 = formats["int8"]
    cosine = min(layer["mean"] for layer in int8["cosines"])
    perplexity, accuracy = change_of_perplexity(formats, "int8"), change_of_probe(formats, "int8")
    size = deflated(int8["files"], softmax=False)
    limits = [
        Limit("mean cosine, lowest layer", cosine, f"{cosine:.5f}", ">= 0.9995", cosine >= 0.9995),
        Limit("change of perplexity", perplexity, f"{perplexity:+.3f}%", "< 0.2%",
              abs(perplexity) < 0.2),
        Limit("MB in a wheel without the softmax", size / MB, f"{size / MB:.1f}", "< 100",
              size < 100 * MB),
    ]  # fmt: skip
    if accuracy is not None:
        held = abs(accuracy) < 0.1
        limits.append(Limit("change of the probe", accuracy, f"{accuracy:+.2f}", "< 0.1", held))
    return limits


def report(facts: dict[str, Any], measured: dict[str, Any], limits: list[Limit]) -> str:
    """Return the results in Markdown."""
    formats = measured["formats"]
    lines = [
        f"# {facts['model']}, stored in fewer bits",
        "",
        f"{machine_line(facts['machine'])}. Made by `{facts['command']}`.",
        f"Text: {facts['text']}; cosines of its first {measured['tokens']:,} tokens.",
    ]
    rows = [[x.what, x.shown, x.limit, "yes" if x.held else "**no**"] for x in limits]
    lines += table("8 bits", ["", "measured", "limit", "held"], rows)
    rows = []
    for dtype, values in formats.items():
        cosines = values["cosines"]
        accuracies = values["probe"]
        rows.append([
            dtype,
            f"{values['files'][WEIGHTS]['bytes'] / MB:.1f}",
            f"{deflated(values['files'], softmax=False) / MB:.1f}",
            f"{deflated(values['files'], softmax=True) / MB:.1f}",
            ", ".join(f"{layer['mean']:.5f}" for layer in cosines),
            ", ".join(f"{layer['smallest']:.4f}" for layer in cosines),
            f"{values['perplexity']['perplexity']:.3f} "
            f"({change_of_perplexity(formats, dtype):+.3f}%)",
            "-" if accuracies is None else ", ".join(f"{value:.2f}" for value in accuracies),
        ])  # fmt: skip
    head = ["", "MB of weights", "MB in a wheel, no softmax", "with softmax",
            "mean cosine of layers 0 to L", "smallest cosine", "perplexity",
            "probe of layers 0 to L"]  # fmt: skip
    lines += table("All formats", head, rows)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="a model in float32, or a name")
    parser.add_argument("--text", type=Path, help="running English, plain or .xz")
    parser.add_argument("--tokenized", action="store_true", help="it has a sentence per line")
    parser.add_argument("--vectors", type=int, default=50_000, help="words to compare vectors of")
    parser.add_argument("--words", type=int, help="words to evaluate; all by default")
    parser.add_argument("--treebank", type=Path, nargs=3, metavar="CONLLU",
                        help="train, dev and test, for the probe")  # fmt: skip
    parser.add_argument("--seeds", type=int, default=5, help="probes per layer")
    parser.add_argument("--device", help="cpu, cuda; a GPU by default")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the tables go")
    parser.add_argument("--out", default="storage", help="their name")
    arguments = parser.parse_args()
    wiki = "English Wikipedia, valid.txt.xz" if WIKI.exists() else "Python's documentation"
    shown = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    facts = {
        "machine": machine_facts(torch.device(resolve_device(arguments.device))),
        "command": f"python benchmarks/storage.py {shlex.join(shown)}",
        "model": "/".join(Path(arguments.model).parts[-2:]),
        "text": arguments.text.name if arguments.text else wiki,
    }
    measured = measure(arguments.model, arguments)
    limits = verdict(measured["formats"])
    text = report(facts, measured, limits)
    print(text)
    arguments.results.mkdir(exist_ok=True)
    (arguments.results / f"{arguments.out}.md").write_text(text, encoding="utf-8")
    values = {**facts, **measured, "limits": [limit.__dict__ for limit in limits]}
    path = arguments.results / f"{arguments.out}.json"
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
