"""What a word means here, by an English model: `python examples/demo.py [MODEL]`.

Words with two senses, three sentences for each. A vector that ignores context cannot tell the
senses apart; ELMo's upper layers can. Printed as tables, drawn as a picture; then the likeliest
words for a gap, and vectors in a file. Everything is computed when it is shown.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from elmox import Elmo, ElmoxError, open_vectors
from elmox.plots import NO_MATPLOTLIB, can_draw, save_picture
from elmox.vectors.embed import embed_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OUTPUT = Path("demo-output")
GAPS = [
    "The river flows into the ___ Sea.",
    "The band released their first ___ in 1994.",
    "He studied ___ at the University of Vienna.",
]


@dataclass(frozen=True)
class Homonym:
    """A word with two senses, and as many sentences for each."""

    word: str
    senses: tuple[str, str]
    sentences: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def all_sentences(self) -> list[str]:
        """Those of the first sense, then those of the second."""
        return [*self.sentences[0], *self.sentences[1]]

    @property
    def pairs(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Pairs of sentences, as places in `all_sentences`: of the same sense, of both senses."""
        number = len(self.sentences[0])
        first, second = range(number), range(number, 2 * number)
        return [*combinations(first, 2), *combinations(second, 2)], list(product(first, second))


HOMONYMS = [
    Homonym(
        "present",
        ("gift", "now"),
        (
            (
                "I will buy you a present.",
                "He gave his mother a present for her birthday.",
                "She wrapped the present in red paper.",
            ),
            (
                "Live in the present, not the past.",
                "The castle has been a museum from 1952 to the present.",
                "The novel moves between the present and her childhood.",
            ),
        ),
    ),
    Homonym(
        "play",
        ("theatre", "sport"),
        (
            (
                "Shakespeare wrote the play in 1606.",
                "The actors rehearsed a new play for weeks.",
                "Her first play opened on Broadway.",
            ),
            (
                "Chico Ruiz made a spectacular play on the grounder.",
                "The referee stopped play after the foul.",
                "Rain delayed play on the second day of the match.",
            ),
        ),
    ),
    Homonym(
        "bank",
        ("river", "money"),
        (
            (
                "The village lies on the east bank of the Rhine.",
                "We sat on the grassy bank and watched the boats.",
                "The boys fished from the bank of the river.",
            ),
            (
                "She opened an account at the bank.",
                "The bank raised its interest rates.",
                "He borrowed the money from a bank in London.",
            ),
        ),
    ),
    Homonym(
        "spring",
        ("season", "water"),
        (
            (
                "The trees flower in early spring.",
                "The army attacked in the spring of 1943.",
                "Last spring was unusually cold.",
            ),
            (
                "The stream rises from a spring in the hills.",
                "They drank from the cold spring behind the house.",
                "A hot spring feeds the pool with mineral water.",
            ),
        ),
    ),
    Homonym(
        "bat",
        ("animal", "club"),
        (
            (
                "A bat hung upside down in the cave.",
                "This species of bat feeds on insects.",
                "At dusk a bat flew out of the barn.",
            ),
            (
                "He hit the ball with his bat.",
                "The player broke a wooden bat at home plate.",
                "She swung the bat and missed.",
            ),
        ),
    ),
    Homonym(
        "rock",
        ("stone", "music"),
        (
            (
                "The church was cut out of solid rock.",
                "A huge rock fell onto the road.",
                "The cliff consists of volcanic rock.",
            ),
            (
                "The band mixed jazz with rock.",
                "He listened to rock and folk music.",
                "The album was a return to hard rock.",
            ),
        ),
    ),
]


def main(model: str | Path | None = None, output: Path = OUTPUT) -> None:
    """Run the demo.

    Args:
        model: any model with a softmax; the one that comes with elmox by default.
        output: a folder for the picture and the vectors.
    """
    began = time.monotonic()
    output.mkdir(parents=True, exist_ok=True)
    elmo = Elmo.from_pretrained(model)
    print(f"{elmo.description}: {elmo.num_layers} layers of {elmo.dim} numbers for every word.")
    found = {homonym.word: similarities(elmo, homonym) for homonym in HOMONYMS}
    present = HOMONYMS[0]

    print("\n1. The same word in other sentences: how alike are its vectors?\n")
    compare_sentences(present, found[present.word])
    print("\n2. Words with two senses: mean similarity within a sense and across senses.\n")
    compare_senses(HOMONYMS, found)

    print(f"\n3. All sentences with {present.word!r}, as a picture.\n")
    if can_draw():
        for path in save_picture(draw(present, found[present.word]), output / present.word):
            print(f"   {path}")
    else:
        print(f"   {NO_MATPLOTLIB}")

    print("\n4. It is a language model as well: the likeliest words for a gap.\n")
    for sentence in GAPS:
        guesses = elmo.predict(sentence, k=5)
        print(f"   {sentence}")
        print("      " + ", ".join(f"{guess.word} {guess.probability:.0%}" for guess in guesses))

    print("\n5. Vectors in a file, an entry a line of the text: layers, words, numbers.\n")
    write_vectors(elmo, output)
    print(f"\n{time.monotonic() - began:.1f} s in all.")


def similarities(elmo: Elmo, homonym: Homonym) -> NDArray[np.float64]:
    """Cosines of the word's vectors in all pairs of sentences, layer by layer, (L, S, S)."""
    tokens = [elmo.tokenize(sentence) for sentence in homonym.all_sentences]
    layers = elmo.encode_tokens(tokens, layers="all")
    places = [own.index(homonym.word) for own in tokens]
    vectors = np.stack([own[:, at] for own, at in zip(layers, places, strict=True)], axis=1)
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)  # (L, S, D)
    cosines: NDArray[np.float64] = np.einsum("lsd,ltd->lst", units, units, dtype=np.float64)
    return cosines.round(6)  # so that what is equal by construction is equal


def nearer(homonym: Homonym, cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    """How often a sentence is nearer to one of its own sense than to one of the other, (L,).

    Of all choices of a sentence, one of its sense and one of the other; equally near counts half.
    """
    sense = np.repeat([0, 1], len(homonym.sentences[0]))
    same = (sense[:, None] == sense) & ~np.eye(len(sense), dtype=bool)
    other = sense[:, None] != sense
    own, rest = cosines[:, :, :, None], cosines[:, :, None, :]
    wins = (own > rest) + 0.5 * (own == rest)  # (L, sentence, of its sense, of the other)
    chosen = same[:, :, None] & other[:, None, :]
    share: NDArray[np.float64] = wins[:, chosen].mean(axis=1)
    return share


def compare_sentences(homonym: Homonym, cosines: NDArray[np.float64]) -> None:
    """Print how alike the word's vector in the first sentence is to those in the others."""
    first, *others = homonym.all_sentences
    heads = [f"layer {number}" for number in range(len(cosines))]
    width = max(map(len, others))
    print(f"   {homonym.word!r} in {first!r} and in".ljust(width + 6) + columns(heads))
    for number, sentence in enumerate(others, start=1):
        values = [f"{value:.2f}" for value in cosines[:, 0, number]]
        print(f"   {sentence:<{width + 3}}" + columns(values))


def compare_senses(homonyms: Sequence[Homonym], found: dict[str, NDArray[np.float64]]) -> None:
    """Print the mean similarity within a sense and across senses, for every word and layer."""
    num_layers = len(found[homonyms[0].word])
    print(" " * 30 + columns([f"layer {number}" for number in range(num_layers)], 16))
    print(" " * 30 + columns(["same  other"] * num_layers, 16))
    for homonym in homonyms:
        cosines = found[homonym.word]
        means = [
            [np.mean([layer[pair] for pair in pairs]) for pairs in homonym.pairs]
            for layer in cosines
        ]
        name = f"{homonym.word} ({' / '.join(homonym.senses)})"
        print(f"   {name:<27}" + columns([f"{a:.2f}   {b:.2f}" for a, b in means], 16))
    shares = np.mean([nearer(homonym, found[homonym.word]) for homonym in homonyms], axis=0)
    print(f"\n   {'same sense nearer':<27}" + columns([f"{share:.0%}" for share in shares], 16))
    print("   (50% is chance: without context a word has one vector, whatever it means.)")


def columns(cells: Sequence[str], width: int = 10) -> str:
    """Cells side by side, to the right."""
    return "".join(f"{cell:>{width}}" for cell in cells)


def draw(homonym: Homonym, cosines: NDArray[np.float64]) -> "Figure":
    """A panel a layer, sentences by sentences, all with the same colors."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 + 3.2 * len(cosines), 4), layout="constrained")
    panels = figure.subplots(1, len(cosines), sharey=True, squeeze=False)[0]
    letters = [chr(ord("A") + number) for number in range(len(homonym.all_sentences))]
    for number, (axes, layer) in enumerate(zip(panels, cosines, strict=True)):
        draw_panel(axes, layer, float(cosines.min()))
        axes.set_title(f"layer {number}")
        axes.set_xticks(range(len(letters)), letters)
    labels = [f"{a}  {b}" for a, b in zip(letters, homonym.all_sentences, strict=True)]
    panels[0].set_yticks(range(len(labels)), labels)
    senses = " and ".join(homonym.senses)
    figure.suptitle(f"How alike are the vectors of {homonym.word!r}? Two senses: {senses}")
    return figure


def draw_panel(axes: "Axes", layer: NDArray[np.float64], lowest: float) -> None:
    """One layer: a colored table, with lines between the senses."""
    axes.imshow(layer, cmap="cividis", vmin=lowest, vmax=1.0)
    axes.tick_params(length=0)
    for (row, column), value in np.ndenumerate(layer):
        color = "black" if value > (lowest + 1.0) / 2 else "white"
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=color, fontsize=8)
    for line in (axes.axhline, axes.axvline):
        line(len(layer) / 2 - 0.5, color="white", linewidth=2)


def write_vectors(elmo: Elmo, output: Path) -> None:
    """Embed all sentences of the demo into a file, and read it back."""
    sentences = [sentence for homonym in HOMONYMS for sentence in homonym.all_sentences]
    source, path = output / "sentences.txt", output / "vectors.hdf5"
    source.write_text("\n".join(sentences) + "\n", encoding="utf-8")
    embed_file(elmo, str(source), path, force=True)
    with open_vectors(path) as stored:
        print(f"   {path}: {len(stored)} entries, {path.stat().st_size / 1e6:.1f} MB")
        for number, sentence in enumerate(sentences[:3]):
            print(f"   entry {number}: {stored[number].shape!s:<14} {sentence}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(f"{len(sys.argv) - 1} arguments: expected a model, or nothing")
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else None)
    except (ElmoxError, OSError) as error:
        sys.exit(str(error))
