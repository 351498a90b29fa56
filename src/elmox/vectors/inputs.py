"""Inputs of `embed_file` and `embed_sentences`: lines to embed, and a digest that identifies them.

An interrupted run continues only with the same input. `identity` is what decides that:

| input | identity |
|---|---|
| a file | a digest of its bytes |
| sentences that can be read twice (a list, a column of a table) | a digest of their tokens |
| any sentences with a `job_id` | the `job_id`: the caller vouches for the content |
| stdin, a pipe, a generator without a `job_id` | none: to hash it would be to use it up |
"""

import hashlib
import json
import stat
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol

from elmox.elmo import Elmo
from elmox.errors import ElmoxError, shortened
from elmox.io.text_files import STDIN, check_text
from elmox.text.inputs import Text, check_texts, checked_tokens
from elmox.text.lines import Line, line_format, read_lines


class Input(Protocol):
    """Lines to embed; each becomes one entry of the output.

    Attributes:
        settings: how lines are read; stored with the output, and part of the job.
    """

    settings: dict[str, str]

    def identity(self) -> str | None:
        """Return a string that only the same input has; None if it cannot be read again."""

    def lines(self, skip: int) -> Iterator[Line]:
        """Read the lines, without the first `skip`."""


class FileInput:
    """The lines of a text file, a JSON lines file, or stdin."""

    def __init__(self, elmo: Elmo, source: str, tokenized: bool) -> None:
        """Check that the source can be read.

        Args:
            elmo: the model, for its tokenizer.
            source: a path, or - for stdin.
            tokenized: lines are tokens with white space between them, not running text.
        """
        check_text(source)
        self._format = line_format(source, tokenized)
        self.settings: dict[str, str] = {"lines": self._format}
        self._source = source
        self._tokenize = elmo.tokenize

    def identity(self) -> str | None:
        """Return a digest of the file; None for stdin and pipes."""
        if self._source == STDIN or not stat.S_ISREG(Path(self._source).stat().st_mode):
            return None
        with open(self._source, "rb") as file:
            return hashlib.file_digest(file, _new_digest).hexdigest()

    def lines(self, skip: int) -> Iterator[Line]:
        """Read the lines, without the first `skip`."""
        return read_lines(self._source, self._format, self._tokenize, skip=skip)


class SentenceInput:
    """Sentences from memory or from a generator, as strings or lists of tokens."""

    settings: dict[str, str]

    def __init__(self, elmo: Elmo, sentences: Iterable[Text], job_id: str | None) -> None:
        """Wrap the sentences; nothing is read yet.

        Args:
            elmo: the model, for its tokenizer.
            sentences: strings or lists of tokens.
            job_id: identifies the content, if the caller can vouch for it.
        """
        if isinstance(sentences, str):
            raise ElmoxError(
                f"sentences is the string {shortened(sentences, 40)}: expected several sentences, "
                "put it into a list"
            )
        check_texts(sentences)
        self.settings = {}
        self._sentences = sentences
        self._job_id = job_id
        self._tokenize = elmo.tokenize

    def identity(self) -> str | None:
        """Return the caller's `job_id`, or a digest of sentences that can be read twice."""
        if self._job_id is not None:
            return f"job_id {self._job_id}"
        if isinstance(self._sentences, Iterator):
            return None
        digest = _new_digest()
        for row, sentence in enumerate(self._sentences):
            # JSON, so that ["a b"], ["a", "b"] and "a b" differ.
            value = sentence if isinstance(sentence, str) else list(checked_tokens(row, sentence))
            digest.update(json.dumps(value).encode() + b"\n")
        return digest.hexdigest()

    def lines(self, skip: int) -> Iterator[Line]:
        """Return the sentences as lines of one sentence, without the first `skip`."""
        for row, sentence in islice(enumerate(self._sentences), skip, None):
            if isinstance(sentence, str):
                tokens, text = self._tokenize(sentence), sentence
            else:
                tokens, text = list(checked_tokens(row, sentence)), None
            yield Line([tokens] if tokens else [], text)


def _new_digest() -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=16)
