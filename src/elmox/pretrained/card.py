"""Model cards: the README.md next to a model's weights.

`model_card` writes the plain one that every model directory has. `full_card` adds data, recipe,
scores, limits and license, with a YAML header that the Hugging Face hub understands.
"""

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmox.config import Strict, validated
from elmox.errors import ElmoxError
from elmox.io.files import read_json_value
from elmox.io.inputs import MAX_JSON_BYTES, read_whole
from elmox.model.checkpoint import Checkpoint

TAGS = ("elmo", "bilm", "contextual-embeddings")

_CARD = """---
library_name: elmox
tags: [elmo, bilm, contextual-embeddings]
---

# An ELMo biLM for elmox

Made from: {description}.

{facts}

```python
from elmox import Elmo

elmo = Elmo.from_pretrained("path/to/this/directory")
vectors = elmo.encode_tokens([["Live", "in", "the", "present"]])
```
"""
_LIMITS = """\
- The vectors reflect the text that the model was trained on: its topics, its time, its views of
  people and places. Nothing was done to balance them.
- Words that the model predicts are a language model's guesses, not facts."""
_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "I8": "int8"}
_HEADER = re.compile(r"\A---\n(.*?)\n---\n+", re.DOTALL)


@dataclass(frozen=True)
class Score(Strict):
    """A score of the model.

    Attributes:
        task: what is measured, in words: "parts of speech".
        dataset: the data.
        metric: name of the metric.
        value: the score.
        type: the hub's name of the task, such as "token-classification".
        split: of the data.
    """

    task: str
    dataset: str
    metric: str
    value: float
    type: str = "feature-extraction"
    split: str = "test"


@dataclass(frozen=True)
class CardText:
    """The parts of a card that the model does not contain.

    Attributes:
        name: of the model.
        languages: ISO codes.
        license: of the weights, as an SPDX identifier.
        datasets: names of the training data, for the header.
        data: a description of the training data, in Markdown.
        limits: what the model cannot do, in Markdown; None for the general ones.
        scores: of the model.
    """

    name: str
    languages: Sequence[str] = ()
    license: str | None = None
    datasets: Sequence[str] = ()
    data: str | None = None
    limits: str | None = None
    scores: Sequence[Score] = ()


def model_card(checkpoint: Checkpoint, card: str | None = None, storage: str | None = None) -> str:
    """Return the plain model card.

    Args:
        checkpoint: the model.
        card: the author's own, with `{facts}` where the table of facts goes; None for a plain one.
        storage: number format of the stored weights, if it is not the checkpoint's.
    """
    text = _CARD.replace("{description}", checkpoint.description) if card is None else card
    return text.replace("{facts}", facts_table(checkpoint, storage))


def full_card(checkpoint: Checkpoint, folder: Path, text: CardText) -> str:
    """Return a card with data, recipe, scores, taggers, limits and license.

    Args:
        checkpoint: the model.
        folder: its directory, whose `training.toml`, `metrics.jsonl` and `taggers/` are described.
        text: everything else.
    """
    sections = [
        f"# {text.name}: an ELMo biLM",
        "A bidirectional language model (Peters et al. 2018): the vector of every word depends on "
        "its whole sentence.",
        facts_table(checkpoint, stored_type(folder)),
        _use(text.name, checkpoint),
        _section("Data", text.data),
        _training(folder),
        _scores(text.scores),
        _taggers(folder),
        _section("Limits", text.limits or _LIMITS),
        _section("License", text.license and f"The weights are licensed under {text.license}."),
    ]
    body = "\n\n".join(section.strip("\n") for section in sections if section)
    return f"---\n{_header(text)}---\n\n{body}\n"


def read_scores(path: Path) -> list[Score]:
    """Read scores: a JSON list of objects with the fields of `Score`."""
    values = read_json_value(path, MAX_JSON_BYTES)
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise ElmoxError(
            f"{path}: expected a list of scores, each with task, dataset, metric, value"
        )
    return [validated(Score, value, f"{path}[{index}]") for index, value in enumerate(values)]


def card_body(card: str) -> str:
    """Return a card without its YAML header."""
    return _HEADER.sub("", card)


def card_license(card: str) -> str | None:
    """Return the license that the header of a card declares."""
    header = _HEADER.match(card)
    declared = re.search(r"^license: *(\S+)", header.group(1), re.MULTILINE) if header else None
    return declared.group(1) if declared else None


def stored_type(folder: Path) -> str:
    """Return the number format of most of a model directory's weights, as its file has them."""
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", "pt") as file:
        numbers: Counter[str] = Counter()
        for name in file.keys():  # noqa: SIM118  (not a mapping)
            part = file.get_slice(name)
            numbers[part.get_dtype()] += math.prod(part.get_shape())
    ((dtype, _),) = numbers.most_common(1)
    return _DTYPES.get(dtype, dtype)


def facts_table(checkpoint: Checkpoint, storage: str | None = None) -> str:
    """Return a table of facts about a model."""
    config = checkpoint.config
    lstm = config.lstm
    encoder = "word ids" if config.char_cnn is None else f"{config.char_cnn.inventory} of each word"
    directions = "bidirectional" if lstm.bidirectional else "forward"
    weights = list(checkpoint.tensors.values())
    dtype = storage or str(weights[0].dtype).removeprefix("torch.")
    numbers = f"{sum(tensor.numel() for tensor in weights):,} in {dtype}"
    predicts = f"{len(checkpoint.softmax.vocab):,} words" if checkpoint.softmax else "no"
    return f"""\
| | |
|---|---|
| reads | {encoder} |
| LSTMs | {directions}, {lstm.num_layers} x {lstm.cell_dim} cells -> {lstm.projection_dim} |
| layers x width of a vector | {config.num_layers} x {config.dim} |
| parameters of the biLM | {numbers} |
| tokenizer | {config.text.tokenizer} |
| softmax (predicts words) | {predicts} |
| warm start state | {"yes" if checkpoint.warm_state else "no"} |
| weighted pooling | {"yes" if checkpoint.pooling else "no"} |
| mixes | {", ".join(checkpoint.mixes) or "none"} |"""


def _header(text: CardText) -> str:
    """Return the YAML header of a card."""
    from huggingface_hub import EvalResult, ModelCardData

    results = [
        EvalResult(
            task_type=score.type,
            task_name=score.task,
            dataset_type=score.dataset,
            dataset_name=score.dataset,
            dataset_split=score.split,
            metric_type=score.metric,
            metric_value=score.value,
        )
        for score in text.scores
    ]
    data = ModelCardData(
        language=list(text.languages) or None,
        license=text.license.lower() if text.license else None,
        library_name="elmox",
        pipeline_tag="feature-extraction",
        tags=list(TAGS),
        datasets=list(text.datasets) or None,
        model_name=text.name,
        eval_results=results or None,
    )
    return data.to_yaml().rstrip("\n") + "\n"


def _section(title: str, text: str | None) -> str:
    return f"## {title}\n\n{text.strip()}" if text else ""


def _use(name: str, checkpoint: Checkpoint) -> str:
    lines = [
        "from elmox import Elmo",
        "",
        f'elmo = Elmo.from_pretrained("{name}")  # or the path of this directory',
        'vectors = elmo.encode_tokens(["I will buy you a present.", "Live in the present."])',
    ]
    if checkpoint.softmax is not None:
        lines.append('elmo.predict("I will buy you a ___.")')
    return "\n".join(["```python", *lines, "```"])


def _training(folder: Path) -> str:
    """Return the recipe of the training run and the last line of its log, where they are stored."""
    recipe, log = folder / "training.toml", folder / "metrics.jsonl"
    parts = []
    if recipe.is_file():
        text = read_whole(recipe, MAX_JSON_BYTES).decode("utf-8")
        try:
            tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ElmoxError(f"{recipe}: {error}") from error
        parts.append(f"`training.toml` is the whole recipe:\n\n```toml\n{text.strip()}\n```")
    if log.is_file():
        lines = log.read_text("utf-8").strip().splitlines()
        values: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        shown = ", ".join(f"{key} {value}" for key, value in values.items())
        parts.append(f"The last line of the log, `metrics.jsonl`: {shown}.")
    return _section("Training", "\n\n".join(parts))


def _scores(scores: Sequence[Score]) -> str:
    rows = [f"| {s.task} | {s.dataset}, {s.split} | {s.metric} | {s.value:g} |" for s in scores]
    head = ["| task | data | metric | score |", "|---|---|---|---|"]
    return _section("Scores", "\n".join([*head, *rows]) if rows else None)


def _taggers(folder: Path) -> str:
    """Return a table of the ready taggers of a model directory, with their scores."""
    paths = sorted((folder / "taggers").glob("*/scores.json"))
    rows = []
    for path in paths:
        values: dict[str, Any] = json.loads(path.read_text("utf-8"))
        data, license = values.get("data", ""), values.get("license", "")
        score = ", ".join(
            f"{part} {values['metric']} {values[part][values['metric']]:.2f}"
            for part in ("dev", "test")
            if part in values
        )
        rows.append(f"| `{path.parent.name}` | {data} | {license} | {score} |")
    head = ["| tagger | fitted on | license of the data | score |", "|---|---|---|---|"]
    return _section("Ready taggers", "\n".join([*head, *rows]) if rows else None)
