"""Plots: they show the results, and the same plot is the same file."""

import sys
from pathlib import Path
from typing import Any

import pytest

from elmox import plots
from elmox.errors import ElmoxError
from elmox.plots import Series, bars, grouped_bars, heatmap, save_picture

LABELS = ["layer 0", "layer 1"]


@pytest.fixture
def matplotlib() -> object:
    return pytest.importorskip("matplotlib")


def heights(axes: Any) -> list[float]:
    return [patch.get_height() for patch in axes.patches]


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def interval_ends(axes: Any) -> list[float]:
    return sorted(
        y for each in axes.collections for path in each.get_paths() for _, y in path.vertices
    )


@pytest.mark.usefixtures("matplotlib")
def test_bars_with_intervals_and_a_line() -> None:
    figure = bars("Title", "F1, %", LABELS, [60.0, 70.0], [(58, 61), (69, 73)], 65.2, "baseline")
    (axes,) = figure.axes
    assert heights(axes) == [60.0, 70.0]
    assert texts(axes) == ["60.0", "70.0"]
    assert interval_ends(axes) == pytest.approx([58, 61, 69, 73])
    assert axes.get_title() == "Title"
    assert axes.get_ylabel() == "F1, %"
    assert [label.get_text() for label in axes.get_xticklabels()] == LABELS
    low, high = axes.get_ylim()
    assert low <= 0  # a bar that does not start at 0 lies
    assert high > 73
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["baseline"]


@pytest.mark.usefixtures("matplotlib")
def test_groups_are_next_to_each_other() -> None:
    series = [Series("trained", [90, 92]), Series("random", [70, -3])]
    figure = grouped_bars("Title", "%", LABELS, series)
    axes: Any = figure.axes[0]
    assert heights(axes) == [90, 92, 70, -3]
    lefts = [patch.get_x() for patch in axes.patches]
    assert lefts[0] < lefts[2] < lefts[1] < lefts[3]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["trained", "random"]
    assert not bars("Title", "%", LABELS, [1, 2]).legends


@pytest.mark.usefixtures("matplotlib")
def test_heatmap_has_its_numbers_and_they_can_be_read() -> None:
    figure = heatmap("Title", ["a", "b"], ["x", "y", "z"], [[0, 0.25, 1], [0.5, 0.9, 0.1]])
    (axes,) = figure.axes
    assert texts(axes) == ["0.00", "0.25", "1.00", "0.50", "0.90", "0.10"]
    assert [text.get_color() for text in axes.texts[:3]] == ["white", "white", "black"]
    assert heatmap("Title", ["a"], ["x"], [[1.0]]).axes  # no range to divide by


@pytest.mark.usefixtures("matplotlib")
def test_files_are_repeatable_and_replaced(tmp_path: Path) -> None:
    def save() -> dict[str, bytes]:
        figure = bars("Title", "%", LABELS, [60.0, 70.0], [(58, 61), (69, 73)])
        paths = save_picture(figure, tmp_path / "new" / "v1.0")
        assert [path.name for path in paths] == ["v1.0.png", "v1.0.svg"]
        return {path.name: path.read_bytes() for path in paths}

    first = save()
    assert first["v1.0.png"].startswith(b"\x89PNG")
    assert b"<svg" in first["v1.0.svg"]
    assert save() == first
    assert len(list((tmp_path / "new").iterdir())) == 2  # nothing temporary stays


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert not plots.can_draw()
    with pytest.raises(ElmoxError, match=r"pip install 'elmox\[plots\]'"):
        bars("Title", "%", LABELS, [1, 2])
