"""Parts that the reports of all probes share: paired differences and markdown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from elmox.probes.bootstrap import Interval


@dataclass(frozen=True)
class Difference:
    """The difference between two systems on the same sentences.

    Attributes:
        system, other: names of the systems, such as "layer 1" and "layer 0".
        points: score of `system` minus that of `other`, in percentage points.
    """

    system: str
    other: str
    points: Interval


def markdown_report(
    title: str,
    facts: Mapping[str, str],
    notes: Iterable[str],
    caption: str,
    tables: Iterable[Sequence[Sequence[str]]],
) -> str:
    """Return a report: title, a list of facts and notes, a caption, tables.

    Args:
        title: heading.
        facts: model, data, command.
        notes: further items of the list, such as "tags: upos".
        caption: line above the first table.
        tables: each as rows of cells; the first row is the header, the second its alignment.
    """
    lines = [f"# {title}", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    lines += [f"- {note}" for note in notes]
    lines += ["", caption]
    for rows in tables:
        lines += ["", *(f"| {' | '.join(cells)} |" for cells in rows)]
    return "\n".join(lines) + "\n"


def bootstrap_note(samples: int, seed: int) -> str:
    """Describe the intervals of a report."""
    return f"intervals: 95%, paired bootstrap over sentences, {samples:,} samples, seed {seed}"


def difference_rows(where: str, differences: Iterable[Difference]) -> list[list[str]]:
    """Return the rows of a table of differences; `where` names the test data."""
    rows = [[where, "points", "95% interval"], ["---", "---:", "---:"]]
    for difference in differences:
        points = difference.points
        rows.append(
            [
                f"{difference.system} - {difference.other}",
                f"{points.estimate:+.2f}",
                f"{points.low:+.2f} to {points.high:+.2f}",
            ]
        )
    return rows
