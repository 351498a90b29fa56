"""Vectors that depend on the sentence: `python examples/demo.py [MODEL]`.

Six words with two senses, three sentences per sense. A vector that ignores context cannot separate
the senses; ELMo's upper layers can. The demo prints tables and draws a picture, then predicts words
for gaps and writes vectors to a file.
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

from elmox import Elmo, ElmoxError, embed_file, open_vectors
from elmox.plots import NO_MATPLOTLIB, can_draw, save_picture

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
    """A word with two senses, and the same number of sentences for each."""

    word: str
    senses: tuple[str, str]
    sentences: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def all_sentences(self) -> list[str]:
        """The sentences of the first sense, then those of the second."""
        return [*self.sentences[0], *self.sentences[1]]

    @property
    def pairs(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Pairs of indices into `all_sentences`: of the same sense, of different senses."""
        number = len(self.sentences[0])
        first, second = range(number), range(number, 2 * number)
        return [*combinations(first, 2), *combinations(second, 2)], list(product(first, second))


HOMONYMS = [
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
        ("theater", "sport"),
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
        model: any model with a softmax; the bundled English model by default.
        output: directory for the picture and the vectors.
    """
    started = time.monotonic()
    output.mkdir(parents=True, exist_ok=True)
    elmo = Elmo.from_pretrained(model)
    cosines = {homonym.word: similarities(elmo, homonym) for homonym in HOMONYMS}
    example = HOMONYMS[0]
    print(f"Model: {elmo.description}.")
    print(f"Each word gets one vector per layer: {elmo.num_layers} layers of {elmo.dim} numbers.")

    print(f"\n1. Cosine similarity of {example.word!r} in one sentence and in five others.\n")
    print_sentences(example, cosines[example.word])
    print("\n2. Words with two senses: mean similarity within a sense and between the senses.\n")
    print_senses(HOMONYMS, cosines)

    print(f"\n3. The similarities of all sentences with {example.word!r} as a picture.\n")
    if can_draw():
        for path in save_picture(draw(example, cosines[example.word]), output / example.word):
            print(f"   {path}")
    else:
        print(f"   {NO_MATPLOTLIB}")

    print("\n4. ELMo is also a language model: the most likely words for a gap.\n")
    for sentence in GAPS:
        predictions = elmo.predict(sentence, k=5)
        print(f"   {sentence}")
        words = (f"{prediction.word} {prediction.probability:.0%}" for prediction in predictions)
        print("      " + ", ".join(words))

    print("\n5. Vectors in a file: one entry per sentence, of shape (layers, words, numbers).\n")
    write_vectors(elmo, output)
    print(f"\nFinished in {time.monotonic() - started:.1f} s.")


def similarities(elmo: Elmo, homonym: Homonym) -> NDArray[np.float64]:
    """Return the cosines of the word's vectors in all pairs of sentences, per layer: (L, S, S)."""
    tokens = [elmo.tokenize(sentence) for sentence in homonym.all_sentences]
    layers = elmo.encode_tokens(tokens, layers="all")  # (L, T, D) per sentence
    positions = [sentence.index(homonym.word) for sentence in tokens]
    vectors = np.stack(
        [sentence[:, position] for sentence, position in zip(layers, positions, strict=True)],
        axis=1,
    )  # (L, S, D)
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    cosines: NDArray[np.float64] = np.einsum("lsd,ltd->lst", units, units, dtype=np.float64)
    return cosines.round(6)  # so that equal vectors have equal cosines


def share_closer(homonym: Homonym, cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how often the same sense is closer than the other one, as a share per layer: (L,).

    This counts all choices of a sentence, one of the same sense and one of the other sense. A tie
    counts as one half.
    """
    sense = np.repeat([0, 1], len(homonym.sentences[0]))
    is_same = (sense[:, None] == sense) & ~np.eye(len(sense), dtype=bool)
    is_other = sense[:, None] != sense
    same, other = cosines[:, :, :, None], cosines[:, :, None, :]
    wins = (same > other) + 0.5 * (same == other)  # (L, sentence, same sense, other sense)
    chosen = is_same[:, :, None] & is_other[:, None, :]
    share: NDArray[np.float64] = wins[:, chosen].mean(axis=1)
    return share


def print_sentences(homonym: Homonym, cosines: NDArray[np.float64]) -> None:
    """Print the similarity of the first sentence's vector to those of the others."""
    first, *others = homonym.all_sentences
    senses = [sense for sense in homonym.senses for _ in homonym.sentences[0]][1:]
    headings = [f"layer {number}" for number in range(len(cosines))]
    width, sense_width = max(map(len, others)), max(map(len, senses)) + 2
    print(f"   {first} ({homonym.senses[0]})\n")
    print(" " * (3 + sense_width + width) + columns(headings))
    for number, (sense, sentence) in enumerate(zip(senses, others, strict=True), start=1):
        values = [f"{value:.2f}" for value in cosines[:, 0, number]]
        print(f"   {sense:<{sense_width}}{sentence:<{width}}" + columns(values))
    print("\n   Layer 0 ignores the context: it has a single vector for each word.")


def print_senses(homonyms: Sequence[Homonym], cosines: dict[str, NDArray[np.float64]]) -> None:
    """Print the mean similarity within a sense and across senses, for every word and layer."""
    num_layers = len(cosines[homonyms[0].word])
    print(" " * 30 + columns([f"layer {number}" for number in range(num_layers)], 16))
    print(" " * 30 + columns(["same  other"] * num_layers, 16))
    for homonym in homonyms:
        means = [
            [np.mean([layer[pair] for pair in pairs]) for pairs in homonym.pairs]
            for layer in cosines[homonym.word]
        ]
        name = f"{homonym.word} ({' / '.join(homonym.senses)})"
        print(f"   {name:<27}" + columns([f"{a:.2f}   {b:.2f}" for a, b in means], 16))
    shares = [share_closer(homonym, cosines[homonym.word]) for homonym in homonyms]
    shown = [f"{share:.0%}" for share in np.mean(shares, axis=0)]
    print(f"\n   {'same sense is closer':<27}" + columns(shown, 16))
    print("   (50% is chance)")


def columns(cells: Sequence[str], width: int = 10) -> str:
    """Return cells side by side, aligned to the right."""
    return "".join(f"{cell:>{width}}" for cell in cells)


def draw(homonym: Homonym, cosines: NDArray[np.float64]) -> "Figure":
    """Draw one panel per layer, sentences by sentences, with a common color scale."""
    from matplotlib.figure import Figure

    sentences = homonym.all_sentences
    letters = [chr(ord("A") + number) for number in range(len(sentences))]
    figure = Figure(figsize=(4 + 3.2 * len(cosines), 4), layout="constrained")
    panels = figure.subplots(1, len(cosines), sharey=True, squeeze=False)[0]
    for number, (axes, layer) in enumerate(zip(panels, cosines, strict=True)):
        draw_panel(axes, layer, float(cosines.min()))
        axes.set_title(f"layer {number}" + (" (no context)" if number == 0 else ""))
        axes.set_xticks(range(len(letters)), letters)
    labels = [f"{sentence}  {letter}" for letter, sentence in zip(letters, sentences, strict=True)]
    panels[0].set_yticks(range(len(labels)), labels)
    half = len(letters) // 2
    first, second = (f"{part[0]}-{part[-1]}" for part in (letters[:half], letters[half:]))
    senses = f"{first}: {homonym.senses[0]}, {second}: {homonym.senses[1]}"
    figure.suptitle(f"Cosine similarity of {homonym.word!r} between sentences ({senses})")
    return figure


def draw_panel(axes: "Axes", layer: NDArray[np.float64], lowest: float) -> None:
    """Draw one layer: a colored table without its diagonal, with lines between the senses."""
    shown = np.ma.masked_array(layer, np.eye(len(layer), dtype=bool))
    axes.imshow(shown, cmap="cividis", vmin=lowest, vmax=1.0)
    axes.set_facecolor("0.9")
    axes.tick_params(length=0)
    for (row, column), value in np.ndenumerate(layer):
        if row != column:
            color = "black" if value > (lowest + 1.0) / 2 else "white"
            text = f"{value:.2f}"
            axes.text(column, row, text, ha="center", va="center", color=color, fontsize=8)
    for line in (axes.axhline, axes.axvline):
        line(len(layer) / 2 - 0.5, color="white", linewidth=3)


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
        sys.exit(f"expected at most one argument, a model; got {len(sys.argv) - 1}")
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else None)
    except (ElmoxError, OSError) as error:
        sys.exit(str(error))
