"""One word, two senses: similarity of its vectors, by layer, as a picture.

    python examples/senses.py docs/pictures/senses.png

Layer 0 has one vector per spelling. The layers above depend on the sentence, so that uses of the
word in one sense are more similar than uses in two senses.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from elmox import Elmo

WORD = "bank"
SENSES = {
    "river": [
        "The boys fished from the bank of the river.",
        "We sat on the grassy bank and watched the boats.",
        "The village is on the east bank of the Rhine.",
    ],
    "money": [
        "She opened an account at the bank.",
        "The bank raised its interest rates.",
        "He borrowed the money from a bank in London.",
    ],
}
LAYERS = ("layer 0: spelling only", "layer 1", "layer 2")


def similarities(elmo: Elmo, sentences: list[str], word: str) -> np.ndarray:
    """Return the cosine similarities of a word's vectors, (layers, sentences, sentences)."""
    positions = [elmo.tokenize(sentence).index(word) for sentence in sentences]
    layers = elmo.encode_tokens(sentences, layers="all", normalize_embeddings=True)
    vectors = np.stack([sentence[:, i] for sentence, i in zip(layers, positions, strict=True)], 1)
    return vectors @ vectors.transpose(0, 2, 1)


def draw(matrices: np.ndarray, path: Path) -> None:
    """Draw one table per layer, with the senses next to their blocks."""
    sentences = [sentence for group in SENSES.values() for sentence in group]
    size = len(sentences)
    figure, panels = plt.subplots(1, len(matrices), figsize=(13, 4.1), layout="constrained")
    for panel, matrix, title in zip(panels, matrices, LAYERS, strict=True):
        image = panel.imshow(matrix, cmap="cividis", vmin=matrices.min(), vmax=1)
        for row, column in np.ndindex(size, size):
            value = matrix[row, column]
            dark = value < (1 + matrices.min()) / 2
            panel.text(
                column, row, f"{value:.2f}", ha="center", va="center", fontsize=9,
                color="white" if dark else "black",
            )  # fmt: skip
        panel.axhline(size / 2 - 0.5, color="white", linewidth=4)
        panel.axvline(size / 2 - 0.5, color="white", linewidth=4)
        panel.set_title(title, fontsize=12)
        panel.set_xticks([1, 4], list(SENSES), fontsize=12)
        panel.set_yticks([])
        panel.tick_params(length=0)
    panels[0].set_yticks(range(size), sentences, fontsize=10)
    bar = figure.colorbar(image, ax=panels, shrink=0.85, pad=0.01)
    bar.set_label("cosine similarity")
    figure.suptitle(f'"{WORD}" in six sentences: how similar are its vectors?', fontsize=14)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    """Compute the similarities with the bundled English model and draw them."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "senses.png")
    elmo = Elmo.from_pretrained(device="cpu")
    sentences = [sentence for group in SENSES.values() for sentence in group]
    matrices = similarities(elmo, sentences, WORD)
    draw(matrices, path)
    print(f"{path}: {WORD} in {len(sentences)} sentences, {len(matrices)} layers")


if __name__ == "__main__":
    main()
