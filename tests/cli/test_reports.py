"""Reports: printed, and written as files."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from shell import tree

from elmox.cli.options import PrintOptions
from elmox.cli.reports import ReportOptions, write_report
from elmox.errors import OutputExists

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Capture = pytest.CaptureFixture[str]


class Paper:
    """A report whose picture cannot be drawn without matplotlib."""

    def to_dict(self) -> dict[str, Any]:
        return {"probe": "paper"}

    def to_markdown(self) -> str:
        return "# Paper\n"

    def picture(self) -> "Figure":
        from elmox.plots import bars

        return bars("Paper", "%", ["layer 0"], [50.0])


def test_without_matplotlib_only_the_picture_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    messages: list[str] = []
    write_report(Paper(), tmp_path, "paper", force=False, log=messages.append)
    assert sorted(tree(tmp_path)) == ["paper.json", "paper.md"]
    assert len(messages) == 1
    assert messages[0].startswith("no paper.png and paper.svg: plots need matplotlib: ")


def test_files_are_replaced_only_by_force(tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("matplotlib")
    ReportOptions().check("paper")
    once, again = (ReportOptions(tmp_path / "out", force) for force in (False, True))
    once.check("paper")
    once.finish(Paper(), "paper", PrintOptions())
    assert capsys.readouterr().out == "# Paper\n"
    assert len(tree(tmp_path / "out")) == 4
    with pytest.raises(OutputExists):
        once.check("paper")
    again.check("paper")
    (tmp_path / "out" / "paper.md").write_text("old")
    again.finish(Paper(), "paper", PrintOptions(as_json=True))
    assert json.loads(capsys.readouterr().out) == {"probe": "paper"}
    assert (tmp_path / "out" / "paper.md").read_text() == "# Paper\n"
