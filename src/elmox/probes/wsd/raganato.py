"""Sense-tagged text in the XML of Raganato et al. 2017, the unified evaluation framework.

    <corpus lang="en"> <text id="d000"> <sentence id="d000.s000">
      <wf lemma="the" pos="DET">The</wf>
      <instance id="d000.s000.t000" lemma="art" pos="NOUN">art</instance>
    </sentence> ...

is NAME.data.xml, and NAME.gold.key.txt next to it has the sense keys, an instance per line:
`d000.s000.t000 art%1:09:00::`. Five test sets and SemCor are published in this format. Files are
parsed by expat as they are read, so they may be larger than memory. A document type declaration is
refused: none of these files has one, and without it no entity can expand.
"""

import xml.parsers.expat as expat
from collections.abc import Iterator
from pathlib import Path

from elmox.errors import ElmoxError
from elmox.io.text_files import COMPRESSIONS, open_text
from elmox.probes.wsd.senses import LemmaPos, SenseSentence, SenseTag, entry_of, split_unit

TEST_SETS = ("senseval2", "senseval3", "semeval2007", "semeval2013", "semeval2015")

_ALL = "ALL"  # the published concatenation of the five sets
_POS = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
_COMPRESSIONS = ("", *COMPRESSIONS)
_BLOCK_CHARS = 2**16


def find_test_sets(folder: Path) -> dict[str, Path]:
    """Return the data files of a folder such as the framework's Evaluation_Datasets, by name.

    The sets that papers usually report come first, in their usual order. The published
    concatenation called ALL is skipped.
    """
    if not folder.is_dir():
        raise ElmoxError(f"{folder} is not a directory, expected one with NAME/NAME.data.xml in it")
    paths: dict[str, Path] = {}
    for path in sorted(path for depth in ("", "*/") for path in folder.glob(f"{depth}*.data.xml*")):
        if not path.name.endswith(tuple(f".data.xml{ending}" for ending in _COMPRESSIONS)):
            continue
        name = _name(path)
        if name in paths:
            raise ElmoxError(f"{path} and {paths[name]} are both called {name}: remove one of them")
        if name != _ALL:
            paths[name] = path
    if not paths:
        raise ElmoxError(f"{folder} has no test set, expected NAME/NAME.data.xml in it")
    usual = {name: rank for rank, name in enumerate(TEST_SETS)}
    order = sorted(paths, key=lambda name: (usual.get(name, len(usual)), name))
    return {name: paths[name] for name in order}


def read_raganato(data: Path) -> Iterator[SenseSentence]:
    """Read the sentences of a data file and, with them, its gold keys.

    Args:
        data: NAME.data.xml, plain or compressed; NAME.gold.key.txt must be next to it.
    """
    gold_path = _gold_path(data)
    parser = _Parser(data, _read_gold(gold_path))
    with open_text(data) as file:
        while block := file.read(_BLOCK_CHARS):
            yield from parser.feed(block)
        yield from parser.feed("", last=True)
    if parser.gold:
        raise ElmoxError(
            f"{gold_path} has keys of {next(iter(parser.gold))}, which is not an instance of {data}"
        )


def _name(data: Path) -> str:
    return data.name.partition(".data.xml")[0]


def _gold_path(data: Path) -> Path:
    plain = data.with_name(f"{_name(data)}.gold.key.txt")
    for ending in _COMPRESSIONS:
        if (path := Path(f"{plain}{ending}")).exists():
            return path
    raise ElmoxError(f"{plain} does not exist: {data.name} needs its gold keys next to it")


def _read_gold(path: Path) -> dict[str, tuple[str, ...]]:
    gold: dict[str, tuple[str, ...]] = {}
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            fields = line.split()
            if not fields:
                continue
            name, *keys = fields
            try:
                if not keys:
                    raise ElmoxError(f"{name} has no key, expected an instance and its sense keys")
                if name in gold:
                    raise ElmoxError(f"{name} has keys already")
                for key in keys:
                    entry_of(key)
            except ElmoxError as error:
                raise ElmoxError(f"{path}, line {number}: {error}") from None
            gold[name] = tuple(dict.fromkeys(keys))
    return gold


class _Parser:
    """The state of reading a data file: the open sentence and the open unit (wf or instance).

    Attributes:
        gold: keys of the instances that were not read yet.
    """

    def __init__(self, path: Path, gold: dict[str, tuple[str, ...]]) -> None:
        self.gold = gold
        self._path = path
        self._done: list[SenseSentence] = []
        self._in_sentence = False
        self._words: list[str] = []
        self._tags: list[SenseTag] = []
        self._unit: tuple[str, dict[str, str]] | None = None
        self._text: list[str] = []
        self._expat = expat.ParserCreate()
        self._expat.StartDoctypeDeclHandler = self._refuse_doctype
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.CharacterDataHandler = self._characters

    def feed(self, block: str, last: bool = False) -> list[SenseSentence]:
        """Parse a block of the file and return the sentences that end in it."""
        try:
            self._expat.Parse(block, last)
        except expat.ExpatError as error:
            raise ElmoxError(f"{self._path} is not well-formed XML: {error}") from None
        done, self._done = self._done, []
        return done

    def _refuse_doctype(self, *_: object) -> None:
        raise self._error("a document type declaration, which this format does not have")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        is_unit = name in ("wf", "instance")
        if self._unit is not None or (self._in_sentence and not is_unit):
            where = self._unit[0] if self._unit is not None else "sentence"
            raise self._error(f"<{name}> inside <{where}>")
        if is_unit and not self._in_sentence:
            raise self._error(f"<{name}> outside a <sentence>")
        if is_unit:
            self._unit = (name, attributes)
        elif name == "sentence":
            self._in_sentence = True

    def _characters(self, text: str) -> None:
        if self._unit is not None:
            self._text.append(text)
        elif not text.isspace():
            raise self._error(f"the text {text.strip()!r} outside <wf> and <instance>")

    def _end(self, name: str) -> None:
        if self._unit is not None:
            self._end_unit(*self._unit)
            self._unit = None
        elif name == "sentence":
            self._done.append(SenseSentence(tuple(self._words), tuple(self._tags)))
            self._words, self._tags, self._in_sentence = [], [], False

    def _end_unit(self, name: str, attributes: dict[str, str]) -> None:
        start = len(self._words)
        self._words += split_unit("".join(self._text))
        self._text = []
        if name == "wf":
            return
        if len(self._words) == start:
            raise self._error("an <instance> without words")
        missing = [needed for needed in ("id", "lemma", "pos") if not attributes.get(needed)]
        if missing:
            raise self._error(f"an <instance> without {missing[0]}")
        if attributes["pos"] not in _POS:
            raise self._error(f"pos={attributes['pos']!r}, expected {', '.join(_POS)}")
        id = attributes["id"]
        if id not in self.gold:
            raise self._error(f"instance {id} has no gold key, or occurs twice")
        lemma = "_".join(attributes["lemma"].lower().split())
        entry = LemmaPos(lemma, _POS[attributes["pos"]])
        self._tags.append(SenseTag(start, len(self._words), entry, self.gold.pop(id), id))

    def _error(self, what: str) -> ElmoxError:
        return ElmoxError(f"{self._path}, line {self._expat.CurrentLineNumber}: {what}")
