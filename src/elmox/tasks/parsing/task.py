"""Dependency parsing: the head of each word, and the relation to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from elmox.errors import ElmoxError
from elmox.io.conllu import TreebankSentence, read_conllu
from elmox.tasks.base import Offsets, Task, TaskOutput
from elmox.tasks.data.texts import Sentence
from elmox.tasks.parsing.metrics import score_parses
from elmox.tasks.parsing.network import Parse, Parser, ParserConfig, ParserSettings
from elmox.tasks.parsing.spanning_tree import has_cycle


@dataclass(frozen=True)
class ParsingOutput(TaskOutput):
    """A sentence with its dependency tree.

    Attributes:
        tokens: its words.
        heads: the number of each word's head, counted from 1; 0 for the root.
        deprels: the relation of each word to its head.
        offsets: first character of each token and the one after its last; None if the input was
            tokens.
    """

    tokens: tuple[str, ...]
    heads: tuple[int, ...]
    deprels: tuple[str, ...]
    offsets: Offsets | None = None


class Parsing(Task[TreebankSentence, Parse]):
    """The dependency tree of a sentence."""

    settings_type = ParserSettings
    config_type = ParserConfig
    head_type = Parser

    def read(self, path: Path, settings: Any = None) -> list[TreebankSentence]:
        """Read CoNLL-U with trees."""
        sentences = read_conllu(path)
        for sentence in sentences:
            if not sentence.heads or has_cycle(np.array(sentence.heads)):
                problem = "whose heads form a cycle" if sentence.heads else "without heads"
                raise ElmoxError(
                    f"{path}, line {sentence.line}: a sentence {problem}, expected a tree"
                )
        return sentences

    def example_from_input(
        self, values: Mapping[str, Any], settings: Any = None
    ) -> TreebankSentence:
        """Return a sentence without annotation."""
        return TreebankSentence(tuple(values["tokens"]), (), (), (), (), (), (), (), 0)

    def empty_prediction(self) -> Parse:
        """Return no heads."""
        return Parse([], [])

    def sentences(self, example: TreebankSentence) -> Sequence[Sentence]:
        """Return the sentence itself."""
        return (example.words,)

    def configure(
        self, train: Sequence[TreebankSentence], settings: ParserSettings
    ) -> ParserConfig:
        """Collect the relations of the training data, including subtypes."""
        relations = {relation for example in train for relation in example.deprels}
        return ParserConfig(settings, tuple(sorted(relations)))

    def labels(self, config: Mapping[str, Any]) -> list[str]:
        """Return the relations."""
        return list(config["relations"])

    def score(
        self, examples: Sequence[TreebankSentence], predictions: Sequence[Parse]
    ) -> dict[str, float]:
        """Return LAS and UAS as the CoNLL 2018 shared task computes them."""
        scores = score_parses(examples, predictions)
        return {"las": scores.las, "uas": scores.uas}

    def format_prediction(
        self, example: TreebankSentence, prediction: Parse, offsets: Mapping[str, Any]
    ) -> ParsingOutput:
        """Return words, heads and relations."""
        heads, deprels = tuple(prediction.heads), tuple(prediction.deprels)
        return ParsingOutput(example.words, heads, deprels, offsets.get("tokens"))
