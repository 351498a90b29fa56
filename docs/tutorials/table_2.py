# %% [markdown]
# # The paper's Table 2 with ablate
#
# Table 2 of the paper asks how the layers should be used: none of them, the top layer alone, or a learned mix, with a
# strong penalty on its weights (lambda = 1, nearly the average) or a weak one (0.001). `elmox ablate` fits all variants
# on your data. Here it takes the 50 sentences of [the tagger tutorial](tagger.md).

# %%
import re
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

folder = Path(tempfile.mkdtemp())
KINDS = {"{": "FOOD", "[": "TOOL"}


def columns(line: str) -> str:
    """Return a sentence as lines of a word and a tag."""
    rows = []
    for name, word in re.findall(r"([{\[][^}\]]+[}\]])|(\S+)", line):
        words = name[1:-1].split() if name else [word]
        tags = ["B-" + KINDS[name[0]], *["I-" + KINDS[name[0]]] * 9] if name else ["O"]
        rows += [f"{part} {tag}" for part, tag in zip(words, tags, strict=False)]
    return "\n".join(rows) + "\n"


parts = Path("data/recipes.txt").read_text("utf-8").split("===\n")
for part, text in zip(("train", "dev", "test"), parts, strict=True):
    (folder / f"{part}.txt").write_text("\n".join(map(columns, text.splitlines())), "utf-8")

# %% [markdown]
# ## One command
#
# In the shell: `elmox ablate ner layers --train train.txt --dev dev.txt --test test.txt --out runs/table-2`. The settings
# make the network small, so that a CPU needs seconds.

# %%
from elmox.cli.main import app

settings = ["head.hidden=[50]", "fit.epochs=40", "fit.patience=10", "fit.lr=0.003"]
settings += ["fit.batch_size=8", "fit.least_updates=1"]
command = ["ablate", "ner", "layers", "--out", str(folder / "table-2"), "--quiet", "--seeds", "2"]
for part in ("train", "dev", "test"):
    command += [f"--{part}", str(folder / f"{part}.txt")]
for setting in settings:
    command += ["--set", setting]
with redirect_stdout(StringIO()) as printed:
    app(command, standalone_mode=False)
report = printed.getvalue()
print(report[report.index("- f1") :])

# %% [markdown]
# ## Read it with care
#
# The test has 30 sentences: differences of a few points between the rows with ELMo are chance. Only the distance to the
# row without ELMo is clear. The paper's figures come from far larger data. The same study on larger, freely available
# data is on [the results page](../results.md). `--seeds 5` shows how much chance there is.
#
# Other studies: `elmox ablate ner place` (Table 3), `elmox ablate ner samples` (Figure 1)
# ([options](../tasks/index.md#the-papers-analyses)).
