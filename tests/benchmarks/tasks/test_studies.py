"""Studies of the table of tasks: made once, by one recipe and biLM; and commands as pages show."""

import json
import lzma
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from checkpoints import random_options, write_ai2
from task_runs import ROOT, call, write_layers_study
from treebank_data import write_treebank

from elmox.errors import ElmoxError

SMALL = ("words.dim=8", "words.filters=0", "head.hidden=[8]")
CHANGES = (*SMALL, "fit.epochs=1", "fit.least_updates=1")


def write_ewt(data: Path) -> None:
    """A treebank of the names that the script reads."""
    folder = data / "pos_parse_ud_ewt"
    folder.mkdir(parents=True)
    for part, path in write_treebank(folder, 12).items():
        packed = lzma.compress(path.read_bytes())
        (folder / f"en_ewt-ud-{part}.conllu.xz").write_bytes(packed)


def test_a_study_is_made_once(tiny: Path, tmp_path: Path) -> None:
    from tasks.jobs import StudyJob
    from tasks.records import Setup
    from tasks.report import write_report
    from tasks.studies import do_study, do_variant, variants_of

    work, data = tmp_path / "work", tmp_path / "data"
    write_ewt(data)
    setup = Setup(work, data=data, elmo=str(tiny), device="cpu", changes=CHANGES)
    for variant in variants_of("layers")[1:]:
        do_variant(setup, "pos", "layers", variant, 1)
    small = [f"--set={change}" for change in CHANGES]
    run = ["run", "--tasks", "pos", "--columns", "none", "--studies", "layers", "--trials", 1,
           "--seeds", 1, "--jobs", 2, "--device", "cpu", f"--work={work}", "--data", data,
           "--elmo", tiny, *small]  # fmt: skip
    output = call(tmp_path, *run)
    assert "pos-study-layers" in output
    table = work / "ablations" / "pos" / "layers.json"
    rows = json.loads(table.read_text())["rows"]
    assert [row["variant"]["name"] for row in rows][:2] == ["no ELMo", "layer 0"]
    fitted = json.loads((work / "results/pos/none/trial-0.json").read_text())
    fit = rows[0]["results"]["seeds"][0]  # the table's fit, not one more
    assert (fit["dev"], fit["seconds"]) == (fitted["dev"], fitted["seconds"])
    before = table.stat().st_mtime_ns
    assert call(tmp_path, *run) == ""  # nothing is left to do
    assert table.stat().st_mtime_ns == before

    files = tmp_path / "results.md", tmp_path / "tasks.json"
    write_report(work, *files)
    for path in files:
        text = path.read_text("utf-8")
        assert str(tmp_path) not in text
        assert str(tiny.parent) not in text
    shown = (
        "python benchmarks/tasks/run.py run --tasks pos --columns none --studies layers --trials 1 "
    )
    shown += "--seeds 1 --jobs 2 --device cpu --work=work --data data --elmo"
    page = files[0].read_text("utf-8")
    assert f"- command: `{shown}" in page
    assert shown in " ".join(page.split("## With and without ELMo")[1].split("## ")[0].split())

    job = StudyJob("pos", "layers", 1)
    assert job.pending(setup) == []
    more, place = replace(job, num_seeds=2), replace(job, study="place")
    # ELMo at the input is what the mix of all layers was.
    for fit, missing in ((more, range(5)), (place, (1, 2))):
        assert fit.pending(setup) == [replace(fit, variant=k) for k in missing]
    table.unlink()
    assert job.pending(setup) == [job]  # all variants are there, and not fitted again
    do_study(setup, "pos", "layers", 1)
    assert json.loads(table.read_text())["rows"] == rows
    other = write_ai2(tmp_path / "other", random_options(), np.random.default_rng(1))
    with pytest.raises(ElmoxError, match=r"layers-setup\.json is of another biLM"):
        job.pending(replace(setup, elmo=str(other)))
    with pytest.raises(ElmoxError, match=r"layers-setup\.json is of another recipe"):
        job.pending(replace(setup, changes=(*CHANGES, "fit.lr=0.1")))


def test_a_study_waits_for_fits_that_it_shares_with_the_table(tiny: Path, tmp_path: Path) -> None:
    """Two processes would fit in one folder: a variant's, or the study's when it reads them all."""
    from tasks.jobs import FitJob, StudyJob, in_order
    from tasks.records import Fit, Setup

    setup = Setup(tmp_path, data=tmp_path, elmo=str(tiny), device="cpu", changes=CHANGES)
    whole = StudyJob("pos", "layers", 1)
    none, layer = replace(whole, variant=0), replace(whole, variant=2)
    shared, other = FitJob(Fit("pos", "none", 0)), FitJob(Fit("ner", "none", 0))
    assert set(in_order([shared], [none, layer], setup)) == {shared, layer}
    assert in_order([shared], [whole], setup) == [shared]
    assert set(in_order([other], [none, layer], setup)) == {other, none, layer}
    assert set(in_order([other], [whole], setup)) == {other, whole}


def test_shares_that_are_left_out_are_not_waited_for(tiny: Path, tmp_path: Path) -> None:
    """Jobs know no data and fit all shares; the table has those that are different examples."""
    from tasks.jobs import StudyJob
    from tasks.records import Setup
    from tasks.studies import do_study, do_variant, variants_of

    write_ewt(tmp_path / "data")
    setup = Setup(
        tmp_path / "work", data=tmp_path / "data", elmo=str(tiny), device="cpu", changes=CHANGES
    )
    job = StudyJob("pos", "samples", 1)
    for variant_job in job.pending(setup):
        assert variant_job.variant is not None
        do_variant(setup, "pos", "samples", variants_of("samples")[variant_job.variant], 1)
    assert job.pending(setup) == [job]
    do_study(setup, "pos", "samples", 1)
    assert job.pending(setup) == []
    table = json.loads((tmp_path / "work" / "ablations" / "pos" / "samples.json").read_text())
    numbers = [(row["variant"]["share"], row["examples"]) for row in table["rows"]]
    assert numbers == [(0.001, 1), (0.001, 1), (1.0, 12), (1.0, 12)]


def test_studies_are_in_the_report_without_absolute_paths(tmp_path: Path) -> None:
    from tasks.report import write_report

    write_layers_study(tmp_path / "work")
    write_report(tmp_path / "work", tmp_path / "results.md", tmp_path / "tasks.json")
    text = (tmp_path / "results.md").read_text("utf-8")
    assert "## Parts of speech: layers" in text
    assert "- accuracy, in percent, of one seed\n" in text
    assert "| mix | 90.00 | 1.0 |" in text
    assert "| mix, input | 0.20 | 0.50 | 0.30 | 1.50 |" in text
    assert "![pos, layers](results/pos-layers.svg)" in text
    assert (tmp_path / "results" / "pos-layers.svg").read_text() == "<svg/>"
    assert "- ELMo: x\n" in text
    assert "`elmox ablate pos layers --out out --recipe src/elmox/recipes/tasks/pos.toml`" in text
    stored = json.loads((tmp_path / "tasks.json").read_text("utf-8"))
    assert stored["studies"][0]["rows"][0]["results"]["seeds"][0]["model"] == "model"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"--work {ROOT}/runs/tasks", "--work runs/tasks"),
        ("--data=/srv/data/", "--data=data"),
        ('"/srv/data/x.txt"', '"x.txt"'),
        ("--set words.vectors=/srv/glove.txt", "--set words.vectors=glove.txt"),
        (r"--work C:\me\tasks", "--work tasks"),
        ("../shared/tasks and ./x/y or a/b", "../shared/tasks and ./x/y or a/b"),
        ("https://example.org/x", "https://example.org/x"),
        ("3 / 4", "3 / 4"),
    ],
)
def test_no_absolute_path_is_shown(text: str, shown: str) -> None:
    from tasks.commands import without_absolute_paths

    assert without_absolute_paths(text) == shown


def test_a_command_can_be_run_again() -> None:
    from tasks.commands import shown_command

    arguments = ["run", "--work", "/srv/a b", "--set", 'elmo.model="/srv/x"']
    expected = """python benchmarks/tasks/run.py run --work 'a b' --set 'elmo.model="x"'"""
    assert shown_command(arguments) == expected


def test_the_papers_own_mean() -> None:
    """Six tasks of Table 1: SQuAD, SNLI, SRL, coreference, NER, SST-5."""
    from tasks.summary import paper_reduction

    pairs = ((81.1, 85.8), (88.0, 88.7), (81.4, 84.6), (67.2, 70.4), (90.15, 92.22), (51.4, 54.7))
    shares = [100 * (after - before) / (100 - before) for before, after in pairs]
    mean, number = paper_reduction()
    assert mean == pytest.approx(sum(shares) / 6) == pytest.approx(14.24, abs=0.01)
    assert number == 6
