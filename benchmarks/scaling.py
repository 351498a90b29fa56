"""Time per token and peak memory as texts and sentences grow: neither may grow with them.

Reads running English with random weights of the small size and throws the vectors away: 10^3 to
10^6 tokens in sentences of fixed length, and one sentence of 10^2 to 10^5 tokens (on a GPU up to
10^7 and 10^4). Every point is a separate process, so that its peak is measured alone. The word
cache is empty at the start, so small texts, most of whose words are new, cost more per token.

    python benchmarks/scaling.py                       # some minutes on two cores
    python benchmarks/scaling.py --device cuda
"""

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from machine import RESULTS, ROOT, cpu_name, running_english

SENTENCE_LENGTH = 25
SENTENCES_AT_ONCE = 4000
POWERS = {"cpu": {"text": 6, "sentence": 5}, "cuda": {"text": 7, "sentence": 4}}
FIRST_POWER = {"text": 3, "sentence": 2}
LINES = {"text": f"Many sentences of {SENTENCE_LENGTH} tokens", "sentence": "One sentence"}


def words_of(text: str) -> Iterator[str]:
    """Words without end: those of the text, again and again."""
    return itertools.cycle(text.split())


def read_text(elmo: Any, words: Iterator[str], num_tokens: int) -> None:
    """Many sentences, some thousands of them in memory."""
    left = num_tokens // SENTENCE_LENGTH
    while left:
        number = min(left, SENTENCES_AT_ONCE)
        sentences = [list(itertools.islice(words, SENTENCE_LENGTH)) for _ in range(number)]
        elmo.encode_tokens(sentences, convert_to_tensor=True)
        left -= number


def read_sentence(elmo: Any, words: Iterator[str], num_tokens: int) -> None:
    """One sentence, whose vectors come window by window."""
    from elmox.inference.layer_choice import choose_layers

    choice = choose_layers("average", elmo.num_layers, {})
    sentence = list(itertools.islice(words, num_tokens))
    elmo.reader.read_long(sentence, elmo.start_state(1), choice, lambda *_window: None)


READ = {"text": read_text, "sentence": read_sentence}


def one(kind: str, num_tokens: int, device: str, text: Path | None) -> dict[str, Any]:
    """One point, in this process."""
    import torch

    from elmox import Elmo
    from elmox.model.init import random_checkpoint

    elmo = Elmo(random_checkpoint("small")).to(device, "bfloat16" if device == "cuda" else None)
    words = words_of(running_english(text)[:20_000_000])
    READ[kind](elmo, words, 10**3)  # what is made when it is first needed
    elmo.reader.cache.clear()

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    wait()
    began = time.perf_counter()
    READ[kind](elmo, words, num_tokens)
    wait()
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "kind": kind,
        "tokens": num_tokens,
        "seconds": time.perf_counter() - began,
        "distinct": len(elmo.reader.cache),
        "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit,
        "gpu": torch.cuda.max_memory_allocated() if device == "cuda" else None,
        "where": torch.cuda.get_device_name() if device == "cuda" else cpu_name(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def in_a_process(kind: str, num_tokens: int, args: argparse.Namespace) -> dict[str, Any]:
    """One point, in a fresh process."""
    command = [sys.executable, __file__, "--device", args.device, "--one", kind, str(num_tokens)]
    command += ["--text", str(args.text)] if args.text else []
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    point: dict[str, Any] = json.loads(done.stdout)
    return point


def table(points: list[dict[str, Any]], device: str) -> str:
    """The results in Markdown."""
    first = points[0]
    where = f"{first['where']}, {first['threads']} threads" if device == "cpu" else first["where"]
    lines = [
        f"## {'On a CPU' if device == 'cpu' else 'On a GPU'}",
        "",
        f"{where}, torch {first['torch']}, {'float32' if device == 'cpu' else 'bfloat16'}. Random "
        "weights of the small size; the vectors are thrown away. Words are those in the cache at "
        "the end (32,768 at most).",
    ]
    for kind, title in LINES.items():
        memory = " | GPU memory" if device == "cuda" else ""
        lines += ["", f"| {title}: tokens | words | µs a token | peak resident memory{memory} |"]
        lines += ["|---|---|---|---|" + ("---|" if memory else "")]
        for p in points:
            if p["kind"] == kind:
                cells = [f"{p['tokens']:,}", f"{p['distinct']:,}"]
                cells += [
                    f"{1e6 * p['seconds'] / p['tokens']:,.1f}",
                    f"{p['resident'] / 1e6:,.0f} MB",
                ]
                cells += [f"{p['gpu'] / 1e6:,.0f} MB"] if memory else []
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=list(POWERS), default="cpu")
    parser.add_argument("--text", type=Path, help="running English, plain or .xz")
    parser.add_argument("--less", type=int, default=0, help="powers of ten to leave out at the top")
    parser.add_argument("--one", nargs=2, metavar=("KIND", "TOKENS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        json.dump(one(args.one[0], int(args.one[1]), args.device, args.text), sys.stdout)
        return
    points = []
    for kind, last in POWERS[args.device].items():
        for power in range(FIRST_POWER[kind], last + 1 - args.less):
            points.append(in_a_process(kind, 10**power, args))
            print(points[-1], flush=True)
    (RESULTS / f"scaling_{args.device}.json").write_text(json.dumps(points, indent=2) + "\n")
    known = [d for d in POWERS if (RESULTS / f"scaling_{d}.json").exists()]
    parts = [table(json.loads((RESULTS / f"scaling_{d}.json").read_text()), d) for d in known]
    head = (
        "# Time and memory as texts and sentences grow\n\nMade by `python benchmarks/scaling.py`.\n"
    )
    (RESULTS / "scaling.md").write_text("\n".join([head, *parts]), encoding="utf-8")
    print("\n".join(parts))


if __name__ == "__main__":
    main()
