# %% [markdown]
# # A tagger for your data
#
# You want to find names of your own kinds in text. Here: ingredients and tools in cooking instructions, with and
# without ELMo. The 92 sentences were written for this page. In the test sentences, nearly all names are new: a tagger
# that only learns words by heart cannot find them.

# %%
import re
import tempfile
from pathlib import Path

import elmox

folder = Path(tempfile.mkdtemp())
parts = Path("data/recipes.txt").read_text("utf-8").split("===\n")
print(parts[0][:104])

# %% [markdown]
# ## Columns
#
# `elmox fit ner` reads files with a word and its tag per line and an empty line between sentences. `B-` begins a name,
# `I-` continues it, `O` is everything else.

# %%
KINDS = {"{": "FOOD", "[": "TOOL"}


def columns(line: str) -> str:
    """Return a sentence as lines of a word and a tag."""
    rows = []
    for name, word in re.findall(r"([{\[][^}\]]+[}\]])|(\S+)", line):
        if name:
            first, *others = name[1:-1].split()
            rows += [
                f"{first} B-{KINDS[name[0]]}",
                *(f"{other} I-{KINDS[name[0]]}" for other in others),
            ]
        else:
            rows.append(f"{word} O")
    return "\n".join(rows) + "\n"


for part, text in zip(("train", "dev", "test"), parts, strict=True):
    (folder / f"{part}.txt").write_text("\n".join(map(columns, text.splitlines())), "utf-8")
print((folder / "train.txt").read_text()[:120])

# %% [markdown]
# ## With ELMo, and without
#
# The network is the same. With `elmo="none"` it has its own word vectors and reads letters, but it knows only the 50
# sentences. The settings make it small, so that a CPU needs seconds. The score is F1 of names: kind and extent must
# be right.

# %%
settings = {
    "head.hidden": [50],
    "fit.epochs": 40,
    "fit.patience": 10,
    "fit.lr": 0.003,
    "fit.batch_size": 8,
    "fit.least_updates": 1,
}
results = {
    name: elmox.fit(
        "ner", folder / "train.txt", folder / "dev.txt", folder / "test.txt",
        out=folder / name, elmo=model, settings=settings, seeds=2, cache=folder / "cache",
    )
    for name, model in {"without ELMo": "none", "with ELMo": "english-small"}.items()
}  # fmt: skip
for name, result in results.items():
    print(f"{name:13} F1 {result.mean['test']:.1f} on the test sentences, mean of two seeds")

# %% [markdown]
# ## Use it

# %%
tagger = elmox.TaskPredictor.from_pretrained(results["with ELMo"].model)
output = tagger.predict("Steam the dumplings in a bamboo basket and add chili flakes.")
for token, tag in zip(output.tokens, output.tags, strict=True):
    print(f"{token:10} {tag}")

# %% [markdown]
# ## In the shell
#
# ```
# elmox fit ner --train train.txt --dev dev.txt --test test.txt --out runs/cooking --seeds 2
# elmox tag runs/cooking/seed-0/model text.txt
# ```
#
# [Tasks](../tasks/index.md) explains the options, [named entities](../tasks/ner.md) the file formats and scores.
