"""Trees in brackets: the Penn Treebank's, and those of the Stanford Sentiment Treebank.

    (S (NP (DT The) (NN film)) (VP (VBZ works)))
    (4 (2 (2 The) (2 film)) (4 works))

A leaf is a label with its word; every other node is a label with the nodes below it. Line ends mean
nothing, and the Penn Treebank's outermost brackets, which have no label, are taken off. Words are
given back as they were in the text: -LRB- is (, and a backslash that the treebank put before / or *
is gone.

The sentiment treebank (Socher et al. 2013) gives every phrase of a sentence a label from 0, very
negative, to 4, very positive; the sentence's own is that of the root.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from elmox.errors import ElmoxError
from elmox.io.text_files import open_text

SENTIMENTS = ("very negative", "negative", "neutral", "positive", "very positive")

# (LABEL, a word or ). In SST "8 1/2", with a no-break space, is one word.
_TOKEN = re.compile(r"\([^ \t\r\n()]*|\)|[^ \t\r\n()]+")
_ESCAPE = re.compile(r"\\([/*])")
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


class Phrase(NamedTuple):
    """A labeled part of a sentence: its first word's place and the place after its last word."""

    label: str
    start: int
    stop: int


@dataclass(frozen=True)
class Tree:
    """A node: a leaf has a word and nothing below it, every other node has no word (None)."""

    label: str
    children: tuple["Tree", ...] = ()
    word: str | None = None

    def leaves(self) -> Iterator["Tree"]:
        """The leaves from left to right. Those labeled -NONE- are traces, no words of the text."""
        waiting = [self]
        while waiting:
            tree = waiting.pop()
            if tree.word is not None:
                yield tree
            waiting += reversed(tree.children)


@dataclass(frozen=True)
class SentimentTree:
    """A sentence with the sentiments of all its phrases.

    Attributes:
        words: the tokens.
        label: the sentiment of the sentence, 0 to 4.
        phrases: of all nodes, leaves too, each before what is below it; the first is the root.
    """

    words: tuple[str, ...]
    label: int
    phrases: tuple[Phrase, ...]


def read_trees(path: Path) -> Iterator[Tree]:
    """Read the trees of a file, plain or compressed.

    Raises:
        ElmoxError: a line is malformed; the message names file, line and what was expected.
    """
    for _, tree in _trees(path):
        yield tree


def read_sentiment(path: Path) -> Iterator[SentimentTree]:
    """Read the sentences of a file of the sentiment treebank, plain or compressed.

    Raises:
        ElmoxError: as `read_trees`, or a label is none of 0 to 4, or there is no tree.
    """
    labels = tuple(map(str, range(len(SENTIMENTS))))
    line = 0
    for line, tree in _trees(path):
        words, phrases = spans(tree)
        for phrase in phrases:
            if phrase.label not in labels:
                problem = f"the label {phrase.label!r}, expected a sentiment from 0 to 4"
                raise ElmoxError(f"{path}, line {line}: {problem}")
        yield SentimentTree(words, int(tree.label), phrases)
    if not line:
        raise ElmoxError(f"{path} has no sentences: expected trees, like (4 (2 It) (4 works))")


def spans(tree: Tree) -> tuple[tuple[str, ...], tuple[Phrase, ...]]:
    """The words of a tree, and what part of them every node covers, nodes before those below."""
    words: list[str] = []
    starts: list[tuple[str, int]] = []
    stops: dict[int, int] = {}
    waiting: list[Tree | int] = [tree]  # a number: here ends the node that has it in starts
    while waiting:
        node = waiting.pop()
        if isinstance(node, int):
            stops[node] = len(words)
            continue
        waiting.append(len(starts))
        starts.append((node.label, len(words)))
        if node.word is not None:
            words.append(node.word)
        waiting += reversed(node.children)
    phrases = (Phrase(label, start, stops[place]) for place, (label, start) in enumerate(starts))
    return tuple(words), tuple(phrases)


@dataclass
class _Open:
    """A node whose closing bracket has not come yet."""

    line: int
    label: str
    word: str | None = None
    children: list[Tree] = field(default_factory=list)


def _trees(path: Path) -> Iterator[tuple[int, Tree]]:
    """The trees, each with the line where it ends."""
    stack: list[_Open] = []
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                for token in _TOKEN.findall(line):
                    tree = _take(stack, token, number)
                    if tree is not None:
                        yield number, tree
            except ElmoxError as error:
                raise ElmoxError(f"{path}, line {number}: {error}") from None
    if stack:
        raise ElmoxError(f"{path}, line {stack[0].line}: a bracket is opened here and never closed")


def _take(stack: list[_Open], token: str, line: int) -> Tree | None:
    """Takes `(LABEL`, a word or `)`; returns the tree that it completes, if any."""
    if token[0] == "(":
        if stack and stack[-1].word is not None:
            raise ElmoxError(f"a bracket after the word {stack[-1].word!r}, expected its end")
        stack.append(_Open(line, token[1:]))
    elif not stack:
        raise ElmoxError(f"{token!r} outside of brackets, expected a tree")
    elif token == ")":
        tree = _closed(stack.pop(), outermost=not stack)
        if not stack:
            return tree
        stack[-1].children.append(tree)
    elif stack[-1].word is not None or stack[-1].children:
        raise ElmoxError(f"{token!r} after the words of {stack[-1].label!r}, expected its end")
    else:
        stack[-1].word = _restored(token)
    return None


def _closed(node: _Open, outermost: bool) -> Tree:
    if not node.label and outermost and len(node.children) == 1:
        return node.children[0]
    if not node.label:
        raise ElmoxError("brackets without a label, expected (LABEL ...)")
    if node.word is None and not node.children:
        raise ElmoxError(f"nothing below {node.label!r}, expected a word or phrases")
    return Tree(node.label, tuple(node.children), node.word)


def _restored(word: str) -> str:
    return _BRACKETS.get(word) or _ESCAPE.sub(r"\1", word)
