"""Plots of results: bars with intervals, heat maps, curves.

They are drawn with matplotlib, an optional package, through its objects alone: no global state of
matplotlib changes, and no screen is needed. The colors are safe for the color-blind (Okabe and
Ito's palette, and cividis).
"""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmox.errors import ElmoxError, install_hint
from elmox.io.files import write_together

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NO_MATPLOTLIB = f"plots need matplotlib: {install_hint('plots')}"

_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")
_FORMATS: dict[str, dict[str, Any]] = {  # without the date, the same picture is the same file
    ".png": {"dpi": 160, "metadata": {"Software": None}},
    ".svg": {"metadata": {"Date": None}},
}


@dataclass(frozen=True)
class Series:
    """Bars of one color.

    Attributes:
        name: their entry in the legend; empty for none.
        values: their heights, one per label.
        intervals: the ends of their error bars, (low, high) on the same axis.
    """

    name: str
    values: Sequence[float]
    intervals: Sequence[tuple[float, float]] | None = None


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def bars(
    title: str,
    ylabel: str,
    labels: Sequence[str],
    values: Sequence[float],
    intervals: Sequence[tuple[float, float]] | None = None,
    line: float | None = None,
    line_label: str = "",
) -> "Figure":
    """Draw one bar per label.

    Args:
        title: title of the plot.
        ylabel: label of the axis of values.
        labels: labels below the bars.
        values: their heights.
        intervals: the ends of the error bars, (low, high) on the axis of the values.
        line: a value to compare with, drawn as a horizontal line.
        line_label: its entry in the legend.
    """
    return grouped_bars(title, ylabel, labels, [Series("", values, intervals)], line, line_label)


def grouped_bars(
    title: str,
    ylabel: str,
    labels: Sequence[str],
    series: Sequence[Series],
    line: float | None = None,
    line_label: str = "",
) -> "Figure":
    """Draw the bars of several series next to each other over each label; see `bars`."""
    figure = _figure(2.5 + 0.9 * len(labels) * max(1.0, 0.6 * len(series)), 4.0)
    axes = figure.add_subplot()
    width = 0.8 / len(series)
    for number, (each, color) in enumerate(zip(series, _cycled(len(series)), strict=True)):
        centers = [i + (number - (len(series) - 1) / 2) * width for i in range(len(labels))]
        _draw_series(axes, centers, width, each, color)
    if line is not None:
        axes.axhline(line, color="black", linestyle="--", linewidth=1, label=line_label)
    axes.set_title(title)
    axes.set_ylabel(ylabel)
    axes.set_xticks(range(len(labels)), list(labels))
    axes.margins(y=0.12)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    if line_label or any(each.name for each in series):
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def heatmap(
    title: str, rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]]
) -> "Figure":
    """Draw a table of numbers, colored by their size.

    Args:
        title: title of the plot.
        rows: names of the rows.
        columns: names of the columns.
        values: the numbers of each row.
    """
    figure = _figure(2.5 + 0.8 * len(columns), 1.6 + 0.45 * len(rows))
    axes = figure.add_subplot()
    everything = [value for cells in values for value in cells]
    middle = (min(everything) + max(everything)) / 2
    axes.imshow(values, cmap="cividis", aspect="auto")
    axes.set_title(title)
    axes.set_xticks(range(len(columns)), list(columns), rotation=30, ha="right")
    axes.set_yticks(range(len(rows)), list(rows))
    axes.tick_params(length=0)
    for row, cells in enumerate(values):
        for column, value in enumerate(cells):
            color = "black" if value > middle else "white"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=color)
    return figure


def curves(
    title: str,
    xlabel: str,
    ylabel: str,
    series: Mapping[str, Sequence[tuple[float, float, float]]],
) -> "Figure":
    """Draw a line per series over a logarithmic axis.

    Args:
        title: title of the plot.
        xlabel, ylabel: labels of the axes.
        series: points (x, y, deviation of y) by their name in the legend.
    """
    figure = _figure(5.5, 4.0)
    axes = figure.add_subplot()
    for (name, points), color in zip(series.items(), _cycled(len(series)), strict=True):
        xs, ys, spread = zip(*points, strict=True)
        axes.errorbar(xs, ys, yerr=spread, color=color, label=name, marker="o", capsize=3)
    axes.set_xscale("log")
    axes.set_title(title)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def picture_files(figure: "Figure", stem: Path) -> dict[Path, Callable[[Path], None]]:
    """Return STEM.png and STEM.svg with the functions that write them, for `write_together`."""

    def writer(suffix: str) -> Callable[[Path], None]:
        def write(path: Path) -> None:
            import matplotlib

            with matplotlib.rc_context({"svg.hashsalt": "elmox"}):
                figure.savefig(path, format=suffix[1:], **_FORMATS[suffix])

        return write

    return {stem.with_name(stem.name + suffix): writer(suffix) for suffix in _FORMATS}


def save_picture(figure: "Figure", stem: Path) -> list[Path]:
    """Write STEM.png and STEM.svg, replacing existing ones, and return their paths."""
    files = picture_files(figure, stem)
    write_together(files, force=True)
    return list(files)


def _figure(width: float, height: float) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ElmoxError(NO_MATPLOTLIB) from error
    return Figure(figsize=(width, height), layout="constrained")


def _cycled(number: int) -> list[str]:
    return [_COLORS[i % len(_COLORS)] for i in range(number)]


def _draw_series(
    axes: "Axes", centers: Sequence[float], width: float, series: Series, color: str
) -> None:
    errors = None
    tops = list(series.values)
    if series.intervals is not None:
        ends = list(zip(series.values, series.intervals, strict=True))
        errors = [[v - low for v, (low, _) in ends], [high - v for v, (_, high) in ends]]
        tops = [max(value, high) for value, (_, high) in ends]
    axes.bar(
        centers, series.values, 0.92 * width, yerr=errors, color=color, label=series.name or None,
        error_kw={"elinewidth": 1, "capsize": 3},
    )  # fmt: skip
    for center, value, top in zip(centers, series.values, tops, strict=True):
        axes.annotate(
            f"{value:.1f}", (center, max(top, 0.0)), (0, 2), textcoords="offset points",
            ha="center", va="bottom", fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},  # above the line
        )  # fmt: skip
