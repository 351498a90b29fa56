"""The user's class: all uses of words in a text, searched by sense.

index = OccurrenceIndex.build(elmo, "text.txt", "text.index")
index = OccurrenceIndex.open("text.index")
index.search("He plays the **bass** in a band.")    # uses of "bass" in this sense
index.cluster("bass")                               # its senses, with examples
"""

import difflib
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from elmox.elmo import Elmo
from elmox.errors import Argument, ArgumentError, ElmoxError, require_at_least
from elmox.inference.layer_choice import Layers
from elmox.search.any_word import AnyWordSearch
from elmox.search.build import IndexOptions, build_index
from elmox.search.index_file import IndexFile
from elmox.search.model import check_model, load_model
from elmox.search.page import write_page
from elmox.search.quantized import Float32
from elmox.search.query import Query, parse_query
from elmox.search.scan import descending, scan, unit_vectors
from elmox.search.senses import Sense, group
from elmox.search.uses import Match, Use, UseReader
from elmox.text.inputs import Text
from elmox.vectors.workspace import workspace_of

SPARE_CANDIDATES = 64  # for repeated sentences, of which only one is returned


class OccurrenceIndex:
    """The uses of words in a text, each with its vector and its context, in one file.

    Attributes:
        path: the file.
        words: the words, in lower case, sorted.
        layers: the layer of the vectors, or their mix, as in `Elmo.encode_tokens`.
        dim: D, dimensions of a vector.
    """

    def __init__(self, file: IndexFile, elmo: Elmo | None = None) -> None:
        """Most users call `open` or `build`."""
        self.path = file.path
        self.dim = file.dim
        self.words = file.words()
        if any(first >= second for first, second in pairwise(self.words)):
            raise file.damaged("its words are not sorted")
        self._file = file
        self._reader = UseReader(file, self.words)
        self._any_word = AnyWordSearch(file)
        self._model = _model_meta(file)
        self.layers: Layers = self._model["layers"]
        self._elmo = elmo
        if elmo is not None:
            check_model(elmo, self._model, self.path)

    @classmethod
    def open(cls, path: str | os.PathLike[str], elmo: Elmo | None = None) -> Self:
        """Open an index; only its list of words is read.

        Args:
            path: a file that `build`, `export_page` or `elmox index` has made.
            elmo: the model of the index. By default it is loaded by the first search, from where it
                was when the index was made.
        """
        path = Path(path)
        if not path.exists() and workspace_of(path).exists():
            raise ElmoxError(f"{path} is unfinished: run the same job again to finish it")
        return cls(IndexFile(path), elmo)

    @classmethod
    def build(
        cls,
        elmo: Elmo,
        text: str | Path | Sequence[Text],
        path: str | os.PathLike[str],
        **options: Unpack[IndexOptions],
    ) -> Self:
        """Write the index of a text and open it.

        The text is read twice. After an interruption, the same call continues where the last one
        stopped; when everything is done, it only opens the index.

        Args:
            elmo: the model.
            text: a text file, a .jsonl file, or a list of sentences. Files may be compressed.
            path: the index to write.
            **options: as follows, all of them by name.
            layers: the layer to store: "top" (the default), "average", "mix", "mix:NAME" or an
                index.
            words: the words whose uses are stored, in any case; None for all content words: words
                of letters that are no stop words.
            stop_words: words that are not content words; None for those of English.
            min_count: minimum number of uses of a content word; 5 by default.
            max_per_word: maximum number of uses to store per word, taken evenly from the text;
                10,000 by default, None for all.
            tokenized: lines are sentences of tokens with white space between them.
            force: replace an existing file, and discard an unfinished one of another job.
            batch_tokens: maximum number of tokens per batch; None for a default of the device.
            show_progress_bar: show a bar on stderr.
        """
        build_index(elmo, text, Path(path), **options)
        return cls.open(path, elmo)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    @property
    def elmo(self) -> Elmo:
        """The model of the index, loaded when it is first used."""
        return self.load_model()

    def load_model(
        self, path: str | Path | None = None, device: str | torch.device | None = None
    ) -> Elmo:
        """Load the model of the index unless it is loaded already.

        Args:
            path: its path, if it has moved since the index was made.
            device: "cpu", "cuda", ...; a GPU if there is one by default.
        """
        if self._elmo is None:
            self._elmo = load_model(self._model, self.path, path, device)
        return self._elmo

    def search(
        self,
        sentence: Text,
        *,
        word: str | None = None,
        position: int | None = None,
        top_k: int = 10,
        any_word: bool = False,
    ) -> list[Match]:
        """Return the uses that are most similar to a word in a sentence, by cosine.

        A sentence that occurs several times in the text is returned once, and `sentence` itself is
        left out.

        Args:
            sentence: a sentence with `**` on both sides of the word, such as "He plays the **bass**
                in a band."; or one without, or a list of tokens.
            word: the word, if it is not marked.
            position: its index among the tokens, if it is not marked.
            top_k: maximum number of uses.
            any_word: search the uses of all words, not only of this one. That needs the extra
                `faiss` to be fast.
        """
        require_at_least(1, "top_k", top_k)
        query = self.parse(sentence, word=word, position=position)
        if not any_word:
            self._number(query.token)  # before the model is loaded
        return list(islice(self.matches(self.vector(query), query, any_word, top_k), top_k))

    def parse(
        self, sentence: Text, *, word: str | None = None, position: int | None = None
    ) -> Query:
        """Return the tokens of a sentence and the position of its word; see `search`."""
        return parse_query(sentence, self.elmo.tokenize, word, position)

    def vector(self, query: Query) -> Float32:
        """Return the vector of a query's word at length 1, (D,)."""
        (tokens,) = self.elmo.encode_tokens(
            [query.tokens], layers=self.layers, normalize_embeddings=True, show_progress_bar=False
        )
        vector: Float32 = tokens[query.position]
        return vector

    def matches(
        self, vector: Float32, query: Query | None, any_word: bool = False, top_k: int = 10
    ) -> Iterator[Match]:
        """Yield uses by their similarity to a unit vector, each sentence once.

        Args:
            vector: (D,).
            query: the word whose uses are searched; its sentence is left out.
            any_word: search the uses of all words; otherwise `query` is needed.
            top_k: number of matches that the caller is likely to take.
        """
        num_candidates = 4 * top_k + SPARE_CANDIDATES
        if any_word:
            candidates = self._any_word.rows(vector, num_candidates)
        else:
            assert query is not None
            candidates = self._rows_of(query.token, vector, num_candidates)
        done = set() if query is None else {" ".join(query.text.split())}
        for row, similarity in candidates:
            use = self._reader.read(row)
            text = " ".join(use.sentence.split())
            if text not in done:
                done.add(text)
                yield Match(similarity, use)

    def count(self, word: str) -> int:
        """Return the number of stored uses of a word, in any case."""
        start, stop = self._range(word)
        return stop - start

    def uses(self, word: str) -> list[Use]:
        """Return all stored uses of a word, in any case, in the order of the text."""
        start, stop = self._range(word)
        columns = self._file.read("uses", start, stop)
        return [self._reader.of_columns(row, columns[row - start]) for row in range(start, stop)]

    def vectors(self, word: str) -> Float32:
        """Return the vectors of all stored uses of a word at length 1, (uses, D)."""
        return unit_vectors(self._file, np.arange(*self._range(word)))

    def cluster(
        self,
        word: str,
        *,
        num_senses: int | None = None,
        max_senses: int = 6,
        num_examples: int = 3,
    ) -> list[Sense]:
        """Group the uses of a word into senses, the most frequent first.

        Args:
            word: the word, in any case.
            num_senses: number of senses; None to choose one from 1 to `max_senses`, by the
                silhouette of the groups.
            max_senses: largest number that is tried.
            num_examples: number of examples per sense, those nearest to its center.
        """
        for name, value in (("num_senses", num_senses), ("max_senses", max_senses)):
            require_at_least(1, name, value)
        start, stop = self._range(word)
        groups = group(self.vectors(word), num_senses, max_senses)
        return [
            Sense(
                num_uses=len(nearest),
                share=len(nearest) / (stop - start),
                examples=self._examples(start + nearest, num_examples),
                rows=sorted(nearest.tolist()),
            )
            for nearest in groups.nearest
        ]

    def export_page(
        self,
        words: Iterable[str],
        path: str | os.PathLike[str],
        *,
        max_uses: int = 200,
        max_senses: int = 6,
        force: bool = False,
    ) -> None:
        """Write the uses of some words to a small index that a browser can read.

        It has the same layout, and also the sense and the place in a plane of every use.

        Args:
            words: the words, in any case.
            path: the file to write.
            max_uses: maximum number of uses per word, taken evenly from the index.
            max_senses: as in `cluster`.
            force: replace an existing file.
        """
        if isinstance(words, str):
            raise ArgumentError("{}: expected a list of words", Argument("words", words))
        require_at_least(1, "max_uses", max_uses)
        numbers = sorted({self._number(word) for word in words})
        if not numbers:
            raise ArgumentError("{} is empty: expected at least one word", Argument("words"))
        write_page(self._file, self.words, numbers, Path(path), max_uses, max_senses, force)

    def close(self) -> None:
        """Close the file; uses already read stay valid."""
        self._file.close()

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and word.casefold() in self._numbers

    def __len__(self) -> int:
        """Return the number of stored uses."""
        return self._file.num_uses

    def __enter__(self) -> Self:
        """Return the index itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def __repr__(self) -> str:
        return (
            f"OccurrenceIndex({str(self.path)!r}, {len(self):,} uses of {len(self.words):,} words, "
            f"layers={self.layers!r}, dim={self.dim}, model={self._model['description']!r})"
        )

    def _examples(self, rows: NDArray[np.int64], count: int) -> list[Use]:
        """Return the first uses with different sentences."""
        examples: dict[str, Use] = {}
        for row in rows.tolist():
            if len(examples) >= count:
                break
            use = self._reader.read(row)
            examples.setdefault(use.sentence, use)
        return list(examples.values())

    def _rows_of(self, word: str, vector: Float32, first: int) -> Iterator[tuple[int, float]]:
        """Yield the rows of a word and their cosines, most similar first."""
        start, stop = self._range(word)
        similarities = scan(self._file, vector, start, stop)
        for index in descending(similarities, first):
            yield start + index, float(similarities[index])

    def _range(self, word: str) -> tuple[int, int]:
        """Return the rows of a word."""
        number = self._number(word)
        start, stop = self._file.word_starts[number : number + 2].tolist()
        return start, stop

    def _number(self, word: str) -> int:
        number = self._numbers.get(word.casefold())
        if number is None:
            similar = difflib.get_close_matches(word.casefold(), self.words, 3, 0.75)
            hint = f", but it has {', '.join(similar)}" if similar else ""
            raise ArgumentError(
                "{} has no uses of {!r}{}: choose one of its {:,} words, or search all with {}",
                self.path,
                word,
                hint,
                len(self.words),
                Argument("any_word", True),
            )
        return number


def _model_meta(file: IndexFile) -> dict[str, Any]:
    """Return the description of the model, of which every part has the right type."""
    model = file.meta.get("model")
    types: dict[str, type | tuple[type, ...]] = {
        "description": str,
        "digest": str,
        "layers": (str, int),
        "state": str,
    }
    if not isinstance(model, dict) or not all(
        isinstance(model.get(name), kind) for name, kind in types.items()
    ):
        raise file.damaged("its description of the model")
    reference = model.get("reference")
    if reference is not None and not isinstance(reference, dict):
        raise file.damaged("its reference to the model")
    return model
