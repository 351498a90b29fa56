# %% [markdown]
# # One word, many senses
#
# A plain word vector mixes all senses of a word. ELMo gives every use of a word its own vector. This page looks at six
# uses of "plant", then finds the sense of new ones.

# %%
import matplotlib.pyplot as plt
import numpy as np

from elmox import Elmo

WORD = "plant"
SENSES = {
    "it grows": [
        "This plant grows in wet soil.",
        "The leaves of the plant are green.",
        "She put the plant in a pot with fresh soil.",
    ],
    "it is a factory": [
        "The plant employs two hundred workers.",
        "The company closed its steel plant.",
        "Engineers built a chemical plant near the port.",
    ],
}
sentences = [sentence for group in SENSES.values() for sentence in group]
elmo = Elmo.from_pretrained()

# %% [markdown]
# ## The vectors of one word
#
# Take the row of the word from all layers of each sentence.


# %%
def uses(texts: list[str]) -> np.ndarray:
    """Return the vectors of the word, (layers, sentences, numbers)."""
    arrays = elmo.encode_tokens(texts, layers="all", normalize_embeddings=True)
    rows = [elmo.tokenize(text).index(WORD) for text in texts]
    return np.stack([array[:, row] for array, row in zip(arrays, rows, strict=True)], axis=1)


vectors = uses(sentences)
similarity = vectors @ vectors.transpose(0, 2, 1)
print(similarity.shape)

# %% [markdown]
# ## What each layer sees
#
# Each square is the similarity of two uses. Layer 0 only spells, so that all uses are equal. In the layers above, two
# blocks appear: the two senses.

# %%
fig, axes = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained")
for layer, axis in enumerate(axes):
    image = axis.imshow(100 * similarity[layer], cmap="cividis", vmin=30, vmax=100)
    axis.set_title("layer 0: spelling only" if layer == 0 else f"layer {layer}")
    axis.set_xticks([1, 4], SENSES)
    axis.set_yticks([1, 4], SENSES if layer == 0 else ["", ""], rotation=90, va="center")
    for line in (axis.axhline, axis.axvline):
        line(2.5, color="white", linewidth=3)
    for row, column in np.ndindex(6, 6):
        value = round(100 * similarity[layer, row, column].item())
        color = "black" if value > 65 else "white"
        axis.text(column, row, value, ha="center", va="center", color=color)
fig.colorbar(image, ax=axes, label="similarity (cosine, percent)")
fig.suptitle(f'Six uses of "{WORD}" in english-small')
plt.show()

# %% [markdown]
# ## The sense of a new use
#
# The closest of the six known uses decides:

# %%
new = ["The plant needs light and water.", "The plant produces car engines."]
names = [name for name, group in SENSES.items() for _ in group]
for text, scores in zip(new, uses(new)[2] @ vectors[2].T, strict=True):
    print(f"{names[scores.argmax()]:16} {text}")

# %% [markdown]
# ## Which words fit
#
# The model is a language model: it can also name words for the place, from both sides.

# %%
for text in ("The company closed its steel ___.", "The leaves of the ___ are green."):
    print(text, [prediction.word for prediction in elmo.predict(text, k=5)])

# %% [markdown]
# ## In your own text
#
# [Search by sense](../search.md) does this for every word of a text: `elmox index`, then `elmox search`. The
# [explorer](../explore.md) draws the picture above for any word in the browser.
