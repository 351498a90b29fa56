"""The result of a benchmark: one set of rows, as a Markdown table and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import torch

from elmox.bench.floor import ProductRate
from elmox.bench.machine import machine_facts, machine_line


class Column(NamedTuple):
    """A column of the table.

    Attributes:
        key: the name of its values in a row.
        title: its heading.
        spec: the format specification of a value.
        factor: multiplies a value before it is formatted.
    """

    key: str
    title: str
    spec: str = ""
    factor: float | None = None

    def shown(self, value: Any) -> str:
        """Return the text of a cell; a dash for a value that was not measured."""
        if value is None:
            return "-"
        return format(value if self.factor is None else value * self.factor, self.spec)


def milliseconds(key: str, title: str) -> Column:
    """Return a column of times, which rows hold in seconds."""
    return Column(key, f"{title}, ms", ",.4g", 1000)


def speed_columns(unit: str, time: str = "elmox") -> list[Column]:
    """Return the columns of `speed`: time, units per second, the floor and the share of it."""
    return [
        milliseconds("seconds", time),
        Column(f"{unit}_per_second", f"{unit}/s", ",.0f"),
        milliseconds("floor_seconds", "floor"),
        Column("share", "share of the floor", ".0%"),
    ]


def speed(unit: str, number: int, seconds: float, floor: float | None) -> dict[str, Any]:
    """Return the values of `speed_columns` for a number of units; `floor` is in seconds."""
    return {
        "seconds": seconds,
        f"{unit}_per_second": number / seconds,
        "floor_seconds": floor,
        "share": None if floor is None else floor / seconds,
    }


@dataclass(frozen=True)
class Report:
    """A benchmark's result.

    Attributes:
        name: the verb's name.
        title: the table's title.
        device: the device that was measured.
        rate: rate of the products that the floor counts.
        facts: the subject and the method, shown above the table.
        columns: the part of a row that the table shows.
        rows: all values, times in seconds.
        notes: lines below the table, such as which peer is missing and why.
    """

    name: str
    title: str
    device: torch.device
    rate: ProductRate
    facts: dict[str, Any]
    columns: Sequence[Column]
    rows: Sequence[dict[str, Any]]
    notes: Sequence[str] = field(default_factory=tuple)

    def to_dict(self) -> dict[str, Any]:
        """Return all values, for JSON."""
        return {
            "bench": self.name,
            "machine": machine_facts(self.device),
            "product_rate": asdict(self.rate),
            "facts": self.facts,
            "rows": list(self.rows),
            "notes": list(self.notes),
        }

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        facts = {**self.facts, "precision": self.rate.dtype, "product_rate": str(self.rate)}
        lines = [
            f"# {self.title}",
            "",
            f"{machine_line(machine_facts(self.device))}. Made by `elmox bench {self.name}`.",
            "",
            *(f"- {name.replace('_', ' ')}: {_fact(value)}" for name, value in facts.items()),
            "",
            _line([column.title for column in self.columns]),
            _line(["---"] * len(self.columns)),
        ]
        for row in self.rows:
            lines.append(_line([column.shown(row.get(column.key)) for column in self.columns]))
        if self.notes:
            lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _fact(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
