"""Tokens per second of words to character ids, on one core, for running English.

python benchmarks/text.py
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
from machine import RESULTS, cpu_name, running_english

from elmox.text.batches import index_sentences
from elmox.text.chars import spell_bytes
from elmox.text.sentences import split_sentences
from elmox.text.tokenize import get_tokenizer


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    tokenize = get_tokenizer("treebank")
    sentences = [tokenize(s) for s in split_sentences(running_english(args.text))]
    num_tokens = sum(map(len, sentences))
    times: dict[str, list[float]] = {"distinct": [], "every token": []}
    tokens = [word for sentence in sentences for word in sentence]
    for _ in range(args.repeats):
        began = time.perf_counter()
        batch = index_sentences(sentences, "<S>", "</S>")
        spelling = spell_bytes(batch.words)
        times["distinct"].append(time.perf_counter() - began)
        began = time.perf_counter()
        everything = spell_bytes(tokens)
        times["every token"].append(time.perf_counter() - began)
    inside = np.isin(batch.index, [batch.words.index(w) for w in ("<S>", "</S>")], invert=True)
    assert (spelling.ids[batch.index[inside]] == everything.ids).all()
    lines = [
        "# Words to character ids",
        "",
        f"{cpu_name()}, one core, {num_tokens} tokens of running English, {len(batch.words)} "
        f"distinct words, medians of {args.repeats}. Made by `python benchmarks/text.py`.",
        "",
        "| how | tokens/s |",
        "|---|---|",
        *(f"| {name} | {num_tokens / statistics.median(t):,.0f} |" for name, t in times.items()),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "text.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
