# %% [markdown]
# # Old checkpoints
#
# You have a `weights.hdf5` with its `options.json`, as bilm-tf and AllenNLP used them. This page makes such a pair of
# the bundled model, so that it can be run everywhere; with yours, start at the second step.

# %%
import tempfile
from pathlib import Path

from elmox import Elmo

folder = Path(tempfile.mkdtemp())

# %% [markdown]
# ## A file in the old format
#
# In the shell: `elmox convert english-small old/weights.hdf5`. It writes the weights and the options; the softmax and
# its vocabulary go to two more files.

# %%
from elmox.cli.main import app

app(["convert", "english-small", str(folder / "weights.hdf5"), "--quiet"], standalone_mode=False)
print(sorted(path.name for path in folder.iterdir()))

# %% [markdown]
# ## Load it
#
# The options are found next to the weights. `description` states what was recognized; in the shell, `elmox info`.

# %%
old = Elmo.from_pretrained(folder / "weights.hdf5")
print(old.description)
print(old.num_layers, "layers of", old.dim)

# %% [markdown]
# ## The vectors are the same
#
# elmox is tested against vectors that bilm-tf, AllenNLP and ELMoForManyLangs wrote. Here both sides are elmox:

# %%
sentences = [["Live", "in", "the", "present"], ["Now"]]
before = Elmo.from_pretrained().encode_tokens(sentences)
after = old.encode_tokens(sentences)
difference = max(abs(a - b).max() for a, b in zip(before, after, strict=True))
print(f"largest difference: {difference:.0e}")
assert difference < 1e-5

# %% [markdown]
# ## Old code expects carried state
#
# bilm-tf and AllenNLP start each batch where the previous one ended, so the second call gives other vectors than the
# first. elmox starts every sentence from zeros, unless you ask for the old behavior:

# %%
carried = old.stateful()
first = carried.encode_tokens([["Now"]])[0]
second = carried.encode_tokens([["Now"]])[0]
print(f"carried state, difference of two calls: {abs(first - second).max():.2f}")
fresh = [old.encode_tokens([["Now"]])[0] for _ in range(2)]
print(f"zero state, difference of two calls:    {abs(fresh[0] - fresh[1]).max():.2f}")

# %% [markdown]
# ## Keep it in a format of today
#
# One folder with the configuration and the weights as safetensors, which loads faster and runs no code.

# %%
old.save_pretrained(folder / "my-model")
print(sorted(path.name for path in (folder / "my-model").iterdir()))
new = Elmo.from_pretrained(folder / "my-model")
print(f"largest difference: {abs(new.encode_tokens([['Now']])[0] - fresh[0]).max():.0e}")

# %% [markdown]
# Other formats: [NLPL zips, AllenNLP archives, ELMoForManyLangs, TensorFlow checkpoints](../legacy.md). Old code:
# [migration guides](../migration/index.md).
