"""WordNet's index.sense."""

import lzma
from pathlib import Path

import pytest
from sense_data import ANIMAL, BIG, FAMOUS, FIRM, HAPPEN, SENSE_INDEX, SHORE

from elmox.errors import ElmoxError
from elmox.probes.wsd.senses import LemmaPos, entry_of
from elmox.probes.wsd.wordnet import read_sense_index


def write(folder: Path, text: str) -> Path:
    path = folder / "index.sense"
    path.write_text(text, "utf-8")
    return path


def test_senses_are_in_order_of_their_numbers_and_satellites_are_adjectives(tmp_path: Path) -> None:
    index = read_sense_index(write(tmp_path, SENSE_INDEX))
    assert index.senses[LemmaPos("bank", "n")] == (FIRM, SHORE)
    assert index.senses[LemmaPos("great", "a")] == (BIG, FAMOUS)
    assert index.senses[LemmaPos("take_place", "v")] == (HAPPEN,)
    assert len(index.keys) == 9
    assert ANIMAL in index.keys
    assert "zebra%1:05:01::" not in index.keys


def test_compressed_is_the_same(tmp_path: Path) -> None:
    packed = tmp_path / "index.sense.xz"
    packed.write_bytes(lzma.compress(SENSE_INDEX.encode()))
    assert read_sense_index(packed) == read_sense_index(write(tmp_path, SENSE_INDEX))


def test_entry_of_a_key() -> None:
    assert entry_of("quickly%4:02:00::") == LemmaPos("quickly", "r")
    assert entry_of("recent%5:00:00:past:00") == LemmaPos("recent", "a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (f"{FIRM} 08420278 1\n", "line 1: .*a sense key and three numbers"),
        (f"{FIRM} 08420278 1 20\n{SHORE} 09213565 two 25\n", "line 2: "),
        (f"{FIRM} 08420278 1 20\n\n", "line 2: "),
        ("bank 08420278 1 20\n", "line 1: 'bank' is not a WordNet sense key"),
        ("bank%6:14:00:: 08420278 1 20\n", "line 1: 'bank%6:14:00::' is not"),
        (f"{FIRM} 08420278 1 20\n{SHORE} 09213565 1 25\n", "line 2: .*before"),
        (f"{FIRM} 08420278 1 20\n{FIRM} 08420278 2 20\n", "line 2: .*before"),
        (f"{SHORE} 09213565 2 25\n", r"no sense number 1 of bank \(n\)"),
    ],
)
def test_malformed_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ElmoxError, match=f"^{path}.*{message}"):
        read_sense_index(path)
