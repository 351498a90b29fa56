"""Groups of uses on vectors whose groups are known."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from elmox import Elmo, OccurrenceIndex, OutputExists
from elmox.search.senses import group, plane, silhouette

Vectors = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def blobs(sizes: list[int], dim: int = 32, spread: float = 0.05) -> tuple[Vectors, np.ndarray]:
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    centers = rng.standard_normal((len(sizes), dim))
    vectors = centers[labels] + spread * rng.standard_normal((len(labels), dim))
    order = rng.permutation(len(labels))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit[order].astype(np.float32), labels[order]


@pytest.mark.parametrize("sizes", [[40, 20], [30, 20, 10], [900, 700, 500, 300]])
def test_groups_are_recovered(sizes: list[int]) -> None:
    vectors, labels = blobs(sizes)
    groups = group(vectors, None, 6)
    np.testing.assert_array_equal(groups.labels, labels)  # both largest first
    assert [len(nearest) for nearest in groups.nearest] == sizes
    assert groups.silhouette > 0.7
    again = group(vectors, None, 6)
    np.testing.assert_array_equal(again.labels, groups.labels)


def test_one_sense() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((200, 64)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert len(group(vectors, None, 6).nearest) == 1
    assert len(group(vectors, 3, 6).nearest) == 3


@pytest.mark.parametrize("number", [1, 2, 3])
def test_few_and_equal_vectors(number: int) -> None:
    vectors = np.full((number, 4), 0.5, np.float32)
    for wanted in (None, 1, 5):
        groups = group(vectors, wanted, 6)
        assert sum(map(len, groups.nearest)) == number
    assert np.isfinite(plane(vectors)).all()


def test_silhouette_by_its_definition() -> None:
    points = np.array([0.0, 1.0, 5.0, 6.0, 8.0])
    distances = np.abs(points[:, None] - points).astype(np.float32)
    labels = np.array([0, 0, 1, 1, 1])
    widths = []
    for i in range(5):
        same = [distances[i, j] for j in range(5) if labels[j] == labels[i] and j != i]
        other = [distances[i, j] for j in range(5) if labels[j] != labels[i]]
        inside, outside = np.mean(same), np.mean(other)
        widths.append((outside - inside) / max(inside, outside))
    assert silhouette(distances, labels) == pytest.approx(np.mean(widths))


@pytest.fixture(scope="module")
def index(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> OccurrenceIndex:
    sentences = [f"The bank of é river {i}." for i in range(15)]
    sentences += [f"My money is in a bank, {i} times." for i in range(25)]
    path = tmp_path_factory.mktemp("senses") / "text.index"
    return OccurrenceIndex.build(Elmo.from_pretrained(tiny), sentences, path, min_count=1)


def test_cluster(index: OccurrenceIndex) -> None:
    senses = index.cluster("bank", num_senses=2)
    assert [sense.num_uses for sense in senses] == [25, 15]
    assert sum(sense.share for sense in senses) == 1
    assert all("money" in use.sentence for use in senses[0].examples)
    assert all("river" in use.sentence for use in senses[1].examples)
    assert sorted(senses[0].rows + senses[1].rows) == list(range(40))
    uses = index.uses("bank")
    assert all("river" in uses[row].sentence for row in senses[1].rows)


def test_page_is_an_index_with_a_map(index: OccurrenceIndex, tmp_path: Path) -> None:
    path = tmp_path / "page.index"
    index.export_page(["bank", "Money"], path, max_uses=20)
    with pytest.raises(OutputExists):
        index.export_page(["bank"], path)
    page = OccurrenceIndex.open(path)
    assert page.words == ["bank", "money"]
    assert (page.count("bank"), page.count("money")) == (20, 20)
    all_uses = index.uses("bank")
    assert all(use in all_uses for use in page.uses("bank"))
    place = [all_uses.index(use) for use in page.uses("bank")]
    np.testing.assert_array_equal(page.vectors("bank"), index.vectors("bank")[place])
    assert str(index.path.parent) not in path.read_bytes()[8:4096].decode()


def test_page_as_a_browser_reads_it(index: OccurrenceIndex, tmp_path: Path) -> None:
    path = tmp_path / "page.index"
    index.export_page(["bank"], path, max_uses=30)
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    types = {"I64": "<i8", "I32": "<i4", "F32": "<f4", "I8": "i1", "U8": "u1"}
    arrays = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = (8 + length + offset for offset in entry["data_offsets"])
            dtype = np.dtype(types[entry["dtype"]])
            assert start % dtype.itemsize == 0, "a typed array would refuse it"
            arrays[name] = np.frombuffer(data[start:end], dtype).reshape(entry["shape"])
    assert end == len(data)
    assert arrays["map"].shape == (30, 2)
    assert set(arrays["senses"]) <= set(range(6))
    sentence, _, first, last = arrays["uses"][5]
    bounds = arrays["sentence_bounds"]
    text = arrays["sentence_text"][bounds[sentence] : bounds[sentence + 1]].tobytes()
    assert text[first:last] == b"bank"
    vectors = arrays["vectors"] * arrays["scales"][:, None]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
