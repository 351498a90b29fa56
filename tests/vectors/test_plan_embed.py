"""`elmox plan embed`: a real sample, and what is computed from it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from shell import assert_one_line, run_here

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.vectors.plan import EmbedPlan, plan_embed


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("Live in the present.\n\nI will buy you a present.\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("options", "row_values", "value_bytes"),
    [
        ({}, 3, 4),
        ({"layers": "top", "dtype": "float16", "format": "npy"}, 1, 2),
        ({"layers": [0, 2], "tokenized": True, "format": "hdf5"}, 2, 4),
    ],
)
def test_sample(
    options: dict[str, Any], row_values: int, value_bytes: int, tiny: Path, text: Path
) -> None:
    elmo = Elmo.from_pretrained(tiny, device="cpu")
    folder = text.parent / "disk"
    folder.mkdir()
    plan = plan_embed(elmo, text, seconds=0.05, folder=folder, **options)
    assert plan.num_sampled >= 9
    assert plan.bytes_per_token == row_values * elmo.dim * value_bytes
    assert plan.embed_seconds > 0
    assert plan.join_seconds > 0
    assert plan.device == "cpu"
    assert list(folder.iterdir()) == []


def test_computation() -> None:
    plan = EmbedPlan(
        1000, embed_seconds=3e-4, join_seconds=1e-4, bytes_per_token=4096, device="cpu"
    )
    assert plan.worker_seconds(10**6) == pytest.approx(400)
    assert plan.merge_seconds(10**6) == 0
    assert plan.worker_seconds(10**6, 8) == pytest.approx(50)
    assert plan.merge_seconds(10**6, 8) == pytest.approx(100)
    assert plan.num_bytes(10**6) == 4096 * 10**6
    assert replace(plan, join_seconds=0.0).merge_seconds(10**6, 8) == 0


def test_command(tiny: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "embed", tiny, text, "--seconds", 0.05, "--device", "cpu"]
    cluster = ["--tokens", 10**6, "--workers", 4, "--price", 7.2]
    code, out, err = run_here([*arguments, *cluster], capsys)
    assert code == 0, err
    assert [line.split()[0] for line in out.splitlines()] == [
        "measured", "text", "time", "in", "price"
    ]  # fmt: skip
    values = json.loads(run_here([*arguments, *cluster, "--json"], capsys)[1])
    per_token = values["embed_seconds"] + values["join_seconds"]
    assert values["worker_seconds"] == pytest.approx(10**6 * per_token / 4)
    assert values["merge_seconds"] == pytest.approx(10**6 * values["join_seconds"])
    assert values["cost"] == pytest.approx(7.2 * values["total_seconds"] / 3600)
    alone = json.loads(run_here([*arguments, "--json"], capsys)[1])
    assert (alone["num_tokens"], alone["merge_seconds"], alone["cost"]) == (10**9, 0, None)


def test_nothing_to_measure(tiny: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elmo = Elmo.from_pretrained(tiny, device="cpu")
    with pytest.raises(ElmoxError, match="is not a directory: give one"):
        plan_embed(elmo, text, folder=text)
    text.write_text("\n\n")
    assert_one_line(*run_here(["plan", "embed", tiny, text], capsys), f"{text} has no tokens")
    assert_one_line(*run_here(["plan", "embed", tiny, "-"], capsys), "stdin can be read only once")
