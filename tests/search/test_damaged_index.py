"""Damaged, truncated and hostile indexes: one line, no crash."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from elmox import Elmo, ElmoxError, OccurrenceIndex
from elmox.search.build import build_index
from elmox.search.index_file import HEADER_BYTES, META_KEY


@pytest.fixture(scope="module")
def good(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "text.index"
    sentences = ["The bank of the river.", "A bank lends money.", "Rivers and money and banks."]
    build_index(Elmo.from_pretrained(tiny), sentences, path, min_count=1)
    return path


@pytest.fixture
def path(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(good, tmp_path / "text.index"))


def use_all(path: Path) -> None:
    """Read everything that an index has."""
    index = OccurrenceIndex.open(path)
    for word in index.words:
        index.uses(word)
        index.vectors(word)
        index.cluster(word)
    index.search("The **bank**")
    index.export_page(index.words, path.with_name("page"), force=True)


def read_header(path: Path) -> dict[str, dict[str, object]]:
    data = path.read_bytes()
    header: dict[str, dict[str, object]] = json.loads(
        data[8 : 8 + int.from_bytes(data[:8], "little")]
    )
    return header


def change_array(path: Path, name: str, dtype: str, index: int, value: float) -> None:
    """Overwrite one item of an array."""
    start = read_header(path)[name]["data_offsets"][0]  # type: ignore[index]
    item = np.array([value]).astype(dtype)
    with path.open("r+b") as file:
        file.seek(HEADER_BYTES + start + index * item.itemsize)
        file.write(item.tobytes())


def change_header(path: Path, change: dict[str, object], meta: bool = False) -> None:
    """Replace entries of the header, or of the description in it."""
    data, header = path.read_bytes(), read_header(path)
    if meta:
        description = json.loads(str(header["__metadata__"][META_KEY])) | change
        header["__metadata__"] = {META_KEY: json.dumps(description)}
    else:
        header |= change  # type: ignore[arg-type]
    text = json.dumps(header).encode().ljust(HEADER_BYTES - 8)
    path.write_bytes(data[:8] + text + data[HEADER_BYTES:])


def test_the_original_is_fine(path: Path) -> None:
    use_all(path)


def test_truncated_anywhere(path: Path, good: Path) -> None:
    data = good.read_bytes()
    for size in [0, 1, 7, 8, 9, 100, HEADER_BYTES, len(data) // 2, len(data) - 1]:
        path.write_bytes(data[:size])
        with pytest.raises(ElmoxError, match=r"text\.index"):
            use_all(path)


@pytest.mark.parametrize(
    ("name", "dtype", "index", "value"),
    [
        ("word_starts", "<i8", 0, 1),
        ("word_starts", "<i8", 1, -1),
        ("word_starts", "<i8", 1, 2**60),
        ("word_starts", "<i8", -1, 0),
        ("word_bounds", "<i8", 1, 2**62),
        ("word_text", "u1", 0, 0xFF),
        ("word_text", "u1", 0, ord("z")),
        ("uses", "<i4", 0, 2**31 - 1),
        ("uses", "<i4", 0, -1),
        ("uses", "<i4", 2, -1),
        ("uses", "<i4", 3, 2**31 - 1),
        ("uses", "<i4", 3, 0),
        ("scales", "<f4", 0, np.nan),
        ("scales", "<f4", 0, np.inf),
        ("sentence_bounds", "<i8", 1, 2**62),
        ("sentence_bounds", "<i8", 1, -5),
        ("sentence_text", "u1", 0, 0xFF),
    ],
)  # fmt: skip
def test_wrong_numbers(path: Path, name: str, dtype: str, index: int, value: float) -> None:
    if index < 0:
        shape: list[int] = read_header(path)[name]["shape"]  # type: ignore[assignment]
        index += shape[0]
    change_array(path, name, dtype, index, value)
    with pytest.raises(ElmoxError, match="is damaged"):
        use_all(path)


def test_wrong_headers(path: Path, good: Path) -> None:
    header = read_header(good)
    cases: list[dict[str, object]] = [
        {"vectors": {**header["vectors"], "dtype": "U8"}},
        {"vectors": {**header["vectors"], "shape": [1, 2]}},
        {"vectors": {**header["vectors"], "data_offsets": [0, 2**50]}},
        {"scales": {**header["scales"], "shape": [*header["scales"]["shape"], 1]}},  # type: ignore[misc]
        {"word_starts": {"dtype": "I64", "shape": [0], "data_offsets": [0, 0]}},
        {"__metadata__": {META_KEY: "{"}},
        {"__metadata__": {META_KEY: "[]"}},
        {"__metadata__": {"other": "{}"}},
    ]
    for change in cases:
        shutil.copy(good, path)
        change_header(path, change)
        with pytest.raises(ElmoxError, match=r"text\.index"):
            use_all(path)
    metas: list[dict[str, object]] = [{"version": 2}, {"model": None}, {"model": {"layers": "top"}}]
    for meta in metas:
        shutil.copy(good, path)
        change_header(path, meta, meta=True)
        with pytest.raises(ElmoxError, match=r"text\.index"):
            use_all(path)


def test_other_files(tmp_path: Path, tiny: Path) -> None:
    (tmp_path / "text.txt").write_text("Some text that is no index at all.\n" * 9)
    (tmp_path / "folder").mkdir()
    saved = tmp_path / "model"
    Elmo.from_pretrained(tiny).save_pretrained(saved)
    for other in ("text.txt", "folder", "gone", "model/model.safetensors"):
        with pytest.raises(ElmoxError, match=other):
            OccurrenceIndex.open(tmp_path / other)


def test_random_damage(path: Path, good: Path) -> None:
    """A changed byte is harmless or an error, and never anything else."""
    data = bytearray(good.read_bytes())
    rng = np.random.default_rng(0)
    num_refused = 0
    for position in [*rng.integers(0, 2500, 60), *rng.integers(HEADER_BYTES, len(data), 60)]:
        changed = data.copy()
        changed[position] ^= int(rng.integers(1, 256))
        path.write_bytes(changed)
        try:
            index = OccurrenceIndex.open(path)
            for word in index.words:
                index.uses(word)
                index.vectors(word)
        except ElmoxError:
            num_refused += 1
    assert num_refused > 20
