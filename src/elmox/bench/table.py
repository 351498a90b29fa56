"""What a benchmark found: one set of rows, shown as a Markdown table and as JSON."""

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
        form: how a value is formatted.
        factor: what a value is multiplied by before that.
    """

    key: str
    title: str
    form: str = ""
    factor: float | None = None

    def shown(self, value: Any) -> str:
        """A cell; what was not measured is a dash."""
        if value is None:
            return "-"
        return format(value if self.factor is None else value * self.factor, self.form)


def milliseconds(key: str, title: str) -> Column:
    """A column of times, which rows hold in seconds."""
    return Column(key, f"{title}, ms", ",.4g", 1000)


@dataclass(frozen=True)
class Report:
    """A benchmark's result.

    Attributes:
        name: of the verb.
        title: of the table.
        device: where it ran.
        rate: of the products that the floor counts.
        facts: what was measured, and how; shown above the table.
        columns: what the table shows of a row.
        rows: everything that was found. Times are in seconds.
        notes: what is to be said below, such as which peer is missing and why.
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
        """For machines."""
        return {
            "bench": self.name,
            "machine": machine_facts(self.device),
            "product_rate": asdict(self.rate),
            "facts": self.facts,
            "rows": list(self.rows),
            "notes": list(self.notes),
        }

    def to_markdown(self) -> str:
        """For people."""
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
