"""A use of a word: the word in one sentence of an index, with its context."""

from dataclasses import dataclass

from elmox.search.index_file import Array, IndexFile

NUM_CONTEXT = 120  # characters on each side that are shown


@dataclass(frozen=True)
class Use:
    """A word in a sentence.

    Attributes:
        word: the word, in lower case.
        sentence: the sentence.
        start, end: position of the word in it: `sentence[start:end]`.
        token: index of the word among the tokens of the sentence.
        line: number of the line of the text, from 1.
        offset: start of the word in that line, in characters.
    """

    word: str
    sentence: str
    start: int
    end: int
    token: int
    line: int
    offset: int

    def context(self, num_characters: int = NUM_CONTEXT, marks: str = "[]") -> str:
        """Return the sentence with its word between two marks, cut around it if it is long."""
        before, after = self.sentence[: self.start], self.sentence[self.end :]
        if len(before) > num_characters:
            before = f"...{before[-num_characters:]}"
        if len(after) > num_characters:
            after = f"{after[:num_characters]}..."
        middle = self.sentence[self.start : self.end]
        return " ".join(f"{before}{marks[0]}{middle}{marks[-1]}{after}".split())

    def __str__(self) -> str:
        return self.context()


@dataclass(frozen=True)
class Match:
    """A use with its similarity to a query.

    Attributes:
        similarity: cosine.
        use: the use.
    """

    similarity: float
    use: Use


class UseReader:
    """Reads uses from an index by row."""

    def __init__(self, file: IndexFile, words: list[str]) -> None:
        """Keep the file and its words."""
        self._file = file
        self._words = words

    def read(self, row: int) -> Use:
        """Return the use in a row."""
        return self.of_columns(row, self._file.read("uses", row, row + 1)[0])

    def of_columns(self, row: int, columns: Array) -> Use:
        """Return the use in a row whose columns are known."""
        number, token, start, end = columns.tolist()
        sentence, line, offset = self._file.sentence(number)
        before, middle, after = self._file.text_of(sentence, start, end)
        return Use(
            word=self._words[self.word_number(row)],
            sentence=before + middle + after,
            start=len(before),
            end=len(before) + len(middle),
            token=token,
            line=line + 1,
            offset=offset + len(before),
        )

    def word_number(self, row: int) -> int:
        """Return the number of the word of a row."""
        return int(self._file.word_starts.searchsorted(row, side="right")) - 1
