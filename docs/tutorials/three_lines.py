# %% [markdown]
# # Vectors in three lines
#
# An English model comes with elmox: nothing is downloaded, no GPU is needed.

# %%
from elmox import Elmo

elmo = Elmo.from_pretrained()
vectors = elmo.encode_tokens(["She opened an account at the bank.", "We sat on the river bank."])

# %% [markdown]
# One array per sentence, one row per token:

# %%
for array in vectors:
    print(array.shape)

# %% [markdown]
# ## One vector per sentence
#
# `encode` averages the tokens. `similarity` gives cosines.

# %%
texts = [
    "The cat slept on the sofa.",
    "A dog was lying on the carpet.",
    "The company sold its shares.",
    "Investors bought more stocks.",
]
pooled = elmo.encode(texts)
print(pooled.shape)
print(elmo.similarity(pooled, pooled).round(2))

# %% [markdown]
# The two sentences about animals are closest to each other, and so are the two about money. For ranking sentences,
# models that were trained for it [are better](../background/limits.md).

# %% [markdown]
# ## The same word, other vectors
#
# The word "bank" is in both sentences of the first example. Layer 0 only spells: its vectors are equal. The layers
# above read the sentence.

# %%
texts = ["She opened an account at the bank.", "We sat on the river bank."]
rows = [elmo.tokenize(text).index("bank") for text in texts]
layers = elmo.encode_tokens(texts, layers="all", normalize_embeddings=True)
for layer in range(elmo.num_layers):
    first, second = (array[layer, word] for array, word in zip(layers, rows, strict=True))
    print(f"layer {layer}: cosine {first @ second:.2f}")

# %% [markdown]
# ## No word is unknown
#
# Words are read letter by letter, so that misspelled and new words have vectors close to their relatives.

# %%
words = ["definitely", "definately", "friend"]
right, misspelled, other = elmo.encode(words, layers=0, normalize_embeddings=True)
print(f"{words[0]} and {words[1]}: {right @ misspelled:.2f}")
print(f"{words[0]} and {words[2]}: {right @ other:.2f}")

# %% [markdown]
# ## Whole files
#
# `embed_file` writes the vectors of a text; an interrupted run continues. Entry i belongs to line i.

# %%
import tempfile
from pathlib import Path

from elmox import embed_file, open_vectors

folder = Path(tempfile.mkdtemp())
(folder / "text.txt").write_text("Live in the present.\nDon't look back.\n")
embed_file(elmo, str(folder / "text.txt"), folder / "vectors.hdf5", dtype="float16")
with open_vectors(folder / "vectors.hdf5") as stored:
    print(len(stored), [stored[line].shape for line in range(len(stored))])

# %% [markdown]
# Next: [classify your own CSV](classify_csv.md), [layers and other options](../model.md),
# [files of vectors](../vectors.md).
