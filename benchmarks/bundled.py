"""Loss of quality from storage in float16 and inference in int8, and the time to load a model.

FULL is a model in float32 as its training run left it, STORED the same model as it is shipped. On a
running text, read line by line as `elmox eval` reads it:

- vectors: how far each token's vector moves, |stored - full| / |full|, in every layer; all tokens
  of the first sentences;
- perplexity by the full softmax, state carried, of the whole text;
- int8: the stored model with 8-bit products next to the stored model in float32, the cosine of
  every layer and the perplexity. The probe of parts of speech is `elmox probe pos`;
- loading: seconds from a running torch to a model, in fresh processes, files in the cache;
- files: their sizes, and deflated as in a wheel.

The three evaluations take most of the time; `--words` limits them to the beginning of the text.

    python benchmarks/bundled.py runs/english-small/best                  # and the bundled model
    python benchmarks/bundled.py runs/mine/best my-model --text text.txt --tokenized
"""

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import RESULTS, WIKI, running_english
from numpy.typing import NDArray

from elmox import Elmo
from elmox.bench.machine import machine_facts, machine_line
from elmox.pretrained.packages import bundled_model
from elmox.text.sentences import split_sentences

Sentences = list[list[str]]
MB = 10**6
FAR = 2e-2  # a token has moved far when one of its layers has moved by more than this
LOAD = """
import json, sys, time
began = time.perf_counter()
import torch
with_torch = time.perf_counter()
from elmox import Elmo
elmo = Elmo.from_pretrained(sys.argv[1], device="cpu")
loaded = time.perf_counter()
elmo.encode("I will buy you a present.")
first = time.perf_counter()
elmo.predict("I will buy you a ___ .")
predicted = time.perf_counter()
times = {"import_torch": with_torch - began, "load": loaded - with_torch}
print(json.dumps(times | {"first_vectors": first - loaded, "first_words": predicted - first}))
"""


@dataclass(frozen=True)
class Limit:
    """One line of the verdict."""

    what: str
    value: float
    shown: str
    limit: str
    held: bool


def read_sentences(path: Path | None, tokenized: bool, elmo: Elmo) -> Iterator[list[str]]:
    """The sentences of a text, in its order."""
    for line in running_english(path).splitlines():
        pieces = [line.split()] if tokenized else [elmo.tokenize(s) for s in split_sentences(line)]
        yield from (tokens for tokens in pieces if tokens)


def first_words(sentences: Sentences, number: int | None) -> Sentences:
    """As many whole sentences as have that many words; all of them for None."""
    if number is None:
        return sentences
    ends = np.cumsum([len(sentence) for sentence in sentences])
    return sentences[: int(np.searchsorted(ends, number)) + 1]


def layers_of(elmo: Elmo, sentences: Sentences) -> NDArray[np.float32]:
    """(L+1, N, D) all layers of all tokens."""
    return np.concatenate(elmo.encode_tokens(sentences, layers="all"), axis=1)


def moved(full: NDArray[np.float32], stored: NDArray[np.float32]) -> dict[str, Any]:
    """Relative change of vectors (L+1, N, D) in each layer and in the worst layer of each token."""
    change = np.linalg.norm(stored - full, axis=-1) / np.linalg.norm(full, axis=-1)  # (L+1, N)
    rows = {f"layer {number}": values for number, values in enumerate(change)}
    rows["the worst layer of each token"] = change.max(0)
    return {
        name: {
            "median": float(np.median(values)),
            "percentile_99_9": float(np.quantile(values, 0.999)),
            "largest": float(values.max()),
            "share_near": float((values <= FAR).mean()),
        }
        for name, values in rows.items()
    }


def cosines(a: NDArray[np.float32], b: NDArray[np.float32]) -> list[float]:
    """The mean cosine of each layer of two sets of vectors (L+1, N, D)."""
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return [float(mean) for mean in ((a * b).sum(-1) / norms).mean(1)]


def load_times(model: Path, repeats: int) -> dict[str, float]:
    """Medians over fresh processes; the first one fills the file cache and is omitted."""
    runs = []
    for _ in range(repeats + 1):
        command = [sys.executable, "-c", LOAD, str(model)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout))
    return {name: statistics.median(run[name] for run in runs[1:]) for name in runs[0]}


def file_sizes(model: Path) -> dict[str, dict[str, int]]:
    """Bytes of each file, as it is and deflated."""
    return {
        file.name: {"bytes": file.stat().st_size, "deflated": len(zlib.compress(file.read_bytes()))}
        for file in sorted(model.iterdir())
    }


def measure(full: Path, stored: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """All figures, for JSON."""
    whole = Elmo.from_pretrained(full, device="cpu")
    half = Elmo.from_pretrained(stored, device="cpu")
    text = list(read_sentences(arguments.text, arguments.tokenized, half))
    some, evaluated = first_words(text, arguments.vectors), first_words(text, arguments.words)
    before, after = layers_of(whole, some), layers_of(half, some)
    results: dict[str, Any] = {
        "vectors": {"tokens": before.shape[1], "change": moved(before, after)},
        "perplexity": {
            "full": whole.evaluate(evaluated).to_dict(),
            "stored": half.evaluate(evaluated).to_dict(),
        },
    }
    half.to(dtype="int8")
    results["int8"] = {"cosine": cosines(after, layers_of(half, some))}
    results["perplexity"]["int8"] = half.evaluate(evaluated).to_dict()
    results["loading"] = load_times(stored, arguments.repeats)
    results["files"] = file_sizes(stored)
    return results


def verdict(results: dict[str, Any]) -> list[Limit]:
    """Limits for the shipped model, and whether they hold."""
    worst = results["vectors"]["change"]["the worst layer of each token"]
    perplexity = {
        name: evaluation["perplexity"] for name, evaluation in results["perplexity"].items()
    }
    stored = 100 * (perplexity["stored"] / perplexity["full"] - 1)
    int8 = 100 * (perplexity["int8"] / perplexity["stored"] - 1)
    median, near = worst["median"], worst["share_near"]
    cosine, load = min(results["int8"]["cosine"]), results["loading"]["load"]
    size = sum(file["deflated"] for file in results["files"].values())
    return [
        Limit("float16: median change of a vector", median, f"{median:.1e}", "<= 2e-3",
              median <= 2e-3),
        Limit(f"float16: tokens that change by at most {FAR:g}", near, f"{near:.3%}", ">= 99.9%",
              near >= 0.999),
        Limit("float16: change of perplexity", stored, f"{stored:+.4f}%", "< 0.1%",
              abs(stored) < 0.1),
        Limit("int8: mean cosine with float32, lowest layer", cosine, f"{cosine:.5f}", ">= 0.99",
              cosine >= 0.99),
        Limit("int8: change of perplexity", int8, f"{int8:+.3f}%", "< 2%", abs(int8) < 2),
        Limit("seconds to load, without torch", load, f"{load:.2f}", "< 1", load < 1),
        Limit("MB in a wheel", size / MB, f"{size / MB:.1f}", "< 60", size < 60 * MB),
    ]  # fmt: skip


def table(title: str, head: list[str], rows: list[list[str]]) -> list[str]:
    """A section with a table, in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return ["", f"## {title}", "", *(f"| {' | '.join(line)} |" for line in lines)]


def report(facts: dict[str, Any], results: dict[str, Any], limits: list[Limit]) -> str:
    """The results in Markdown."""
    lines = [
        "# The bundled model, stored in float16 and run in int8",
        "",
        f"{machine_line(facts['machine'])}. Made by `{facts['command']}`.",
        f"Full: {facts['full']}. Stored: {facts['stored']}. Text: {facts['text']}; vectors of its",
        f"first {results['vectors']['tokens']:,} tokens.",
    ]
    rows = [[x.what, x.shown, x.limit, "yes" if x.held else "**no**"] for x in limits]
    lines += table("What must hold", ["", "measured", "limit", "held"], rows)
    rows = [
        [name, f"{change['median']:.1e}", f"{change['percentile_99_9']:.1e}",
         f"{change['largest']:.1e}", f"{change['share_near']:.3%}"]
        for name, change in results["vectors"]["change"].items()
    ]  # fmt: skip
    head = ["", "median", "99.9% below", "largest", f"tokens <= {FAR:g}"]
    lines += table("Relative change of a vector by float16", head, rows)
    rows = [
        [name, f"{evaluation['perplexity']:.4f}", f"{evaluation['forward_perplexity']:.4f}",
         f"{evaluation['backward_perplexity']:.4f}", f"{evaluation['bits_per_character']:.5f}",
         f"{evaluation['num_tokens']:,}", f"{evaluation['unknown_share']:.2%}"]
        for name, evaluation in results["perplexity"].items()
    ]  # fmt: skip
    head = ["", "perplexity", "forward", "backward", "bits per character", "tokens", "unknown"]
    lines += table("Perplexity", head, rows)
    rows = [[f"layer {n}", f"{mean:.5f}"] for n, mean in enumerate(results["int8"]["cosine"])]
    lines += table("int8 and float32, both from the stored weights", ["", "mean cosine"], rows)
    rows = [[name.replace("_", " "), f"{s:.2f}"] for name, s in results["loading"].items()]
    lines += table("Loading, in a fresh process", ["", "seconds"], rows)
    rows = [
        [name, f"{size['bytes'] / MB:.2f}", f"{size['deflated'] / MB:.2f}"]
        for name, size in results["files"].items()
    ]
    lines += table("Files", ["", "MB", "deflated"], rows)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("full", type=Path, help="a model directory in float32")
    parser.add_argument("stored", type=Path, nargs="?", help="in float16; the bundled by default")
    parser.add_argument("--text", type=Path, help="running English, plain or .xz")
    parser.add_argument("--tokenized", action="store_true", help="it has a sentence per line")
    parser.add_argument("--vectors", type=int, default=50_000, help="words to compare vectors of")
    parser.add_argument("--words", type=int, help="words to evaluate; all by default")
    parser.add_argument("--repeats", type=int, default=5, help="processes that load the model")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the tables go")
    arguments = parser.parse_args()
    stored = arguments.stored or bundled_model()
    wiki = "English Wikipedia, valid.txt.xz" if WIKI.exists() else "Python's documentation"
    facts = {
        "machine": machine_facts(torch.device("cpu")),
        "command": f"python benchmarks/bundled.py {shlex.join(sys.argv[1:])}",
        "full": "/".join(arguments.full.resolve().parts[-2:]),
        "stored": "/".join(stored.resolve().parts[-2:]),
        "text": arguments.text.name if arguments.text else wiki,
    }
    results = measure(arguments.full, stored, arguments)
    limits = verdict(results)
    shown = report(facts, results, limits)
    print(shown)
    arguments.results.mkdir(exist_ok=True)
    (arguments.results / "bundled.md").write_text(shown, encoding="utf-8")
    values = {**facts, **results, "limits": [asdict(limit) for limit in limits]}
    (arguments.results / "bundled.json").write_text(json.dumps(values, indent=2) + "\n")


if __name__ == "__main__":
    main()
