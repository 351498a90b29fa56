"""Share of the nearest uses that have the same sense, per layer.

An index of a sense-tagged text (SemCor) is searched for every tagged single word of the test sets
of Raganato et al. 2017, with the vectors that the index stores. Words count if the text has at
least K tagged uses of theirs, with at least two senses. The baseline is the share of all uses of
the word that have the sense: a neighbor drawn at random.

    python benchmarks/index_senses.py semcor.jsonl.xz Evaluation_Datasets
"""

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from machine import RESULTS

from elmox import Elmo, OccurrenceIndex
from elmox.bench.machine import machine_facts, machine_line
from elmox.inference.layer_choice import Layers
from elmox.probes.wsd.raganato import find_test_sets, read_raganato
from elmox.probes.wsd.semcor import read_semcor
from elmox.probes.wsd.senses import SenseSentence
from elmox.search.query import Query

Senses = dict[tuple[int, int], frozenset[str]]  # by sentence and position


def single_words(sentences: Sequence[SenseSentence]) -> Senses:
    """Return the senses of the tagged single words."""
    return {
        (number, tag.start): frozenset(tag.keys)
        for number, sentence in enumerate(sentences)
        for tag in sentence.tags
        if tag.stop == tag.start + 1
    }


def word_at(sentences: Sequence[SenseSentence], place: tuple[int, int]) -> str:
    """Return a word in lower case."""
    return sentences[place[0]].words[place[1]].casefold()


def tested_words(train: Sequence[SenseSentence], senses: Senses, least: int) -> dict[str, Any]:
    """Return the senses of all tagged uses of each word that can be tested."""
    uses: dict[str, list[frozenset[str]]] = {}
    for place, keys in senses.items():
        uses.setdefault(word_at(train, place), []).append(keys)
    return {
        word: keys
        for word, keys in uses.items()
        if len(keys) >= least and len(frozenset().union(*keys)) > 1
    }


def measure(
    elmo: Elmo,
    layers: Layers,
    train: Sequence[SenseSentence],
    test: Sequence[SenseSentence],
    folder: Path,
    k: int,
) -> dict[str, Any]:
    """Return the shares of one layer."""
    tagged, gold = single_words(train), single_words(test)
    tested = tested_words(train, tagged, k)
    places = [place for place in gold if word_at(test, place) in tested]
    began = time.perf_counter()
    index = OccurrenceIndex.build(
        elmo,
        [sentence.words for sentence in train],
        folder / f"{layers}.index",
        layers=layers,
        words={word_at(test, place) for place in places},
        max_per_word=None,
    )
    seconds = time.perf_counter() - began
    encoded = elmo.encode_tokens(
        [sentence.words for sentence in test], layers=layers, normalize_embeddings=True
    )
    nearest = near = baseline = 0.0
    for place in places:
        words = list(test[place[0]].words)
        query = Query(words, place[1], " ".join(words))
        same: list[bool] = []
        for match in index.matches(encoded[place[0]][place[1]], query, top_k=k):
            keys = tagged.get((match.use.line - 1, match.use.token))
            if keys is not None:
                same.append(bool(keys & gold[place]))
            if len(same) == k:
                break
        uses = tested[word_at(test, place)]
        nearest += bool(same and same[0])
        near += sum(same) / max(len(same), 1)
        baseline += sum(bool(keys & gold[place]) for keys in uses) / len(uses)
    total = max(len(places), 1)
    return {
        "layers": layers,
        "num_words": len(places),
        "nearest": nearest / total,
        "near": near / total,
        "baseline": baseline / total,
        "seconds": seconds,
        "num_uses": len(index),
    }


def to_markdown(rows: list[dict[str, Any]], facts: dict[str, Any]) -> str:
    """Return the table."""
    first = rows[0]
    lines = [
        "# Same sense among the nearest uses",
        "",
        f"{machine_line(facts['machine'])}. Made by `{facts['command']}`.",
        "",
        f"Model: {facts['model']}. {facts['num_train']:,} tagged sentences are indexed; "
        f"{first['num_words']:,} words of the test sets are searched in "
        f"{first['num_uses']:,} uses. A use drawn at random has the sense in "
        f"{first['baseline']:.1%} of the cases.",
        "",
        f"| layers | the nearest use | the {facts['k']} nearest | seconds to build |",
        "|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['layers']} | {row['nearest']:.1%} | {row['near']:.1%} | {row['seconds']:.0f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write if a folder is given."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("train", type=Path, help="SemCor as JSON lines")
    parser.add_argument("test", type=Path, help="folder of the test sets")
    parser.add_argument("--model", default="english-small")
    parser.add_argument("--sentences", type=int, help="of the tagged text; all by default")
    parser.add_argument("-k", type=int, default=10, help="nearest uses")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}/")
    arguments = parser.parse_args()
    elmo = Elmo.from_pretrained(arguments.model, device="cpu")
    train = list(islice(read_semcor(arguments.train), arguments.sentences))
    test = [s for path in find_test_sets(arguments.test).values() for s in read_raganato(path)]
    choices: list[Layers] = [*range(elmo.num_layers), "average"]
    with TemporaryDirectory() as folder:
        rows = [measure(elmo, layers, train, test, Path(folder), arguments.k) for layers in choices]
    facts = {
        "machine": machine_facts(elmo.device),
        "command": shlex.join(["python", "benchmarks/index_senses.py", *sys.argv[1:]]),
        "model": elmo.description,
        "num_train": len(train),
        "k": arguments.k,
    }
    markdown = to_markdown(rows, facts)
    print(markdown)
    if arguments.write:
        (RESULTS / "index_senses.md").write_text(markdown, encoding="utf-8")


if __name__ == "__main__":
    main()
