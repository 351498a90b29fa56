"""The model card that is written next to a model's weights."""

from elmox.model.checkpoint import Checkpoint

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


def model_card(checkpoint: Checkpoint, card: str | None = None) -> str:
    """Return the model card.

    Args:
        checkpoint: the model.
        card: the author's own, with `{facts}` where the table of facts goes; None for a plain one.
    """
    text = _CARD.replace("{description}", checkpoint.description) if card is None else card
    return text.replace("{facts}", _facts(checkpoint))


def _facts(checkpoint: Checkpoint) -> str:
    """Return a table of facts about a model."""
    config = checkpoint.config
    lstm = config.lstm
    encoder = "word ids" if config.char_cnn is None else f"{config.char_cnn.inventory} of each word"
    directions = "bidirectional" if lstm.bidirectional else "forward"
    weights = list(checkpoint.tensors.values())
    numbers = f"{sum(tensor.numel() for tensor in weights):,} in {weights[0].dtype}"
    predicts = f"{len(checkpoint.softmax.vocab):,} words" if checkpoint.softmax else "no"
    return f"""\
| | |
|---|---|
| reads | {encoder} |
| LSTMs | {directions}, {lstm.num_layers} x {lstm.cell_dim} cells -> {lstm.projection_dim} |
| layers x width of a vector | {config.num_layers} x {config.dim} |
| parameters of the biLM | {numbers.replace("torch.", "")} |
| tokenizer | {config.text.tokenizer} |
| softmax (predicts words) | {predicts} |
| warm start state | {"yes" if checkpoint.warm_state else "no"} |
| mixes | {", ".join(checkpoint.mixes) or "none"} |"""
