"""The table's records in one file: all that the report needs, the same bytes, nothing unsafe."""

import io
import json
import lzma
import os
import re
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from shell import tree
from task_runs import ROOT, call, do_all, write_layers_study

from elmox.errors import ElmoxError

if TYPE_CHECKING:
    from tasks.records import Setup

PICTURE = "<svg><g><path d='M 0 0'/></g></svg>"
RECORD = "results/ner/mix/trial-0.json"
_LONG = re.compile(r"\d+\.\d{7,}")  # numbers whose last digits another machine may not share


def write_records(work: Path, **contents: object) -> Path:
    """A record of a fit, and one that is being written; the path of the first."""
    path = work / RECORD
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(contents))
    path.with_name(".trial-1.json.x.json").write_text('{"half')
    return path


def members(path: Path) -> dict[str, str]:
    """The files of an archive and their contents."""
    with tarfile.open(path, "r:xz") as tar:
        files = {member.name: tar.extractfile(member) for member in tar}
        return {name: file.read().decode() for name, file in files.items() if file}


def packed(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """An archive of anything."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for member, content in entries:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return lzma.compress(stream.getvalue())


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    """A member of any kind."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def test_a_report_is_made_of_what_was_kept(setup: "Setup", tiny: Path, tmp_path: Path) -> None:
    from tasks.jobs import StudyJob
    from tasks.records import pending, recipe_values
    from tasks.studies import setup_path

    def report(work: Path, name: str) -> dict[str, bytes | None]:
        folder = tmp_path / name
        folder.mkdir()
        call(folder, "report", "--work", work, "--document=docs/results.md",
             "--results=tasks.json", "--records=tasks.tar.xz")  # fmt: skip
        return tree(folder)

    do_all(setup, ["none", "mix"], num_trials=2, num_seeds=1)
    write_layers_study(setup.work, PICTURE)
    made_with = {
        "recipe": recipe_values(setup.study_recipe("pos")),
        "encoder": {"digest": setup.digest("elmo")},
    }
    setup_path(setup.work, "pos", "layers").write_text(json.dumps(made_with))
    fit = setup.work / "ablations" / "pos" / "fits" / "layers.json"
    fit.parent.mkdir()
    fit.write_text("{}")
    before = report(setup.work, "before")

    records, work = tmp_path / "before" / "tasks.tar.xz", tmp_path / "new" / "work"
    columns = [f"results/ner/{column}" for column in ("mix", "none")]
    names = [f"ablations/pos/layers{end}" for end in ("-setup.json", ".json", ".svg")]
    names += [f"{column}/{what}-{k}.json" for column in columns for what, k in
              (("seed", 0), ("trial", 0), ("trial", 1))]  # fmt: skip
    kept = members(records)
    assert [*kept] == names
    for folder in (setup.work, tiny.parent, Path("/home")):
        assert str(folder) not in "".join(kept.values())
    assert json.loads(kept[RECORD])["recipe"]["elmo"]["model"] == tiny.name

    output = call(tmp_path, "restore", f"--work={work}", f"--records={records}")
    assert output == f"9 files written to {work}\n"
    restored = replace(setup, work=work)
    assert pending(restored, ["ner"], ["none", "mix"], num_trials=2, num_seeds=1) == []
    assert StudyJob("pos", "layers", 1).pending(restored) == []
    assert report(work, "after") == before
    assert before["docs/results/pos-layers.svg"] == PICTURE.encode()

    more = pending(restored, ["ner"], ["none", "mix"], num_trials=2, num_seeds=2)
    assert [fit.name for fit in more] == ["ner-none-seed-1", "ner-mix-seed-1"]


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    from tasks.archive import keep, restore

    first, second = tmp_path / "first.tar.xz", tmp_path / "second.tar.xz"
    path = write_records(tmp_path / "work", dev=90.123456789012345, test=float("nan"))
    write_layers_study(tmp_path / "work")
    keep(tmp_path / "work", first)
    path.chmod(0o600)
    os.utime(path, (1, 1))
    keep(tmp_path / "work", second)
    assert second.read_bytes() == first.read_bytes()
    assert restore(first, tmp_path / "other") == 3
    keep(tmp_path / "other", second)
    assert second.read_bytes() == first.read_bytes()
    with tarfile.open(first, "r:xz") as tar:
        facts = {
            (member.mtime, member.uid, member.gid, member.uname, member.gname, member.mode)
            for member in tar
        }
    assert facts == {(0, 0, 0, "", "", 0o644)}


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("/srv/english-small", "english-small"),
        ('--set elmo.model="/srv/x"', '--set elmo.model="x"'),
        ("one line\n/srv/größe", "one line\ngröße"),
        ("C:\\me\\x", "x"),
        (["a/b", {"/": 1.5}, None], ["a/b", {"/": 1.5}, None]),
    ],
)
def test_no_absolute_path_is_kept(value: object, kept: object, tmp_path: Path) -> None:
    from tasks.archive import keep

    write_records(tmp_path, value=value)
    keep(tmp_path, tmp_path / "x.tar.xz")
    contents = members(tmp_path / "x.tar.xz")
    assert {name: json.loads(content) for name, content in contents.items()} == {
        RECORD: {"value": kept}
    }


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    from tasks.archive import keep, restore

    path = write_records(tmp_path / "work", dev=1)
    write_layers_study(tmp_path / "work")
    keep(tmp_path / "work", tmp_path / "x.tar.xz")
    path.write_text("newer")
    (tmp_path / "work" / "ablations" / "pos" / "layers.svg").unlink()
    assert restore(tmp_path / "x.tar.xz", tmp_path / "work") == 1
    assert path.read_text() == "newer"
    assert restore(tmp_path / "x.tar.xz", tmp_path / "work") == 0


def test_no_record_is_lost_by_a_report(tmp_path: Path) -> None:
    from tasks.archive import check_nothing_is_lost, keep

    path, kept = write_records(tmp_path / "work", dev=1), tmp_path / "x.tar.xz"
    write_layers_study(tmp_path / "work")
    check_nothing_is_lost(tmp_path / "work", kept)  # nothing has been kept yet
    keep(tmp_path / "work", kept)
    check_nothing_is_lost(tmp_path / "work", kept)
    path.unlink()
    with pytest.raises(ElmoxError, match=rf"has 1 records that .*work lacks, {RECORD} is"):
        check_nothing_is_lost(tmp_path / "work", kept)


def test_the_page_of_results_follows_from_the_kept_records(tmp_path: Path) -> None:
    """Regenerate the page after a change of the script."""
    call(tmp_path, "restore", "--work=work")
    call(tmp_path, "report", "--work=work", "--document=results.md", "--results=tasks.json",
         "--records=tasks.tar.xz")  # fmt: skip
    page = (tmp_path / "results.md").read_text("utf-8")
    assert page == (ROOT / "docs" / "results.md").read_text("utf-8")
    assert "not yet run" not in page
    made, kept = (
        _LONG.sub(lambda match: f"{float(match[0]):.6f}", (folder / "tasks.json").read_text())
        for folder in (tmp_path, ROOT / "benchmarks" / "results")
    )
    assert made == kept
    for picture in (tmp_path / "results").iterdir():
        assert picture.read_bytes() == (ROOT / "docs" / "results" / picture.name).read_bytes()


@pytest.mark.parametrize(
    ("member", "description"),
    [
        (entry("../x"), "the file '../x'"),
        (entry("results/../../x/trial-0.json"), "the file 'results/"),
        (entry("/x"), "the file '/x'"),
        (entry("results/ner/mix/model.bin"), "the file 'results/ner/mix/model.bin'"),
        (entry("results/ner/mix/.trial-0.json"), "the file 'results/ner/mix/.trial-0.json'"),
        (entry("results/ner/mix/trial-1.json\n"), r"the file 'results/ner/mix/trial-1.json\n'"),
        (entry("ablations/pos/fits/x.json"), "the file 'ablations/pos/fits/x.json'"),
        (entry("results/ner", tarfile.DIRTYPE), "a folder, link or device, 'results/ner'"),
        (entry("results/ner/mix/seed-0.json", tarfile.SYMTYPE, "/etc/passwd"), "a folder, link"),
        (entry("results/ner/mix/seed-0.json", tarfile.LNKTYPE, RECORD), "a folder, link"),
    ],
)
def test_foreign_members_are_refused(
    member: tarfile.TarInfo, description: str, tmp_path: Path
) -> None:
    from tasks.archive import restore

    path, work = tmp_path / "x.tar.xz", tmp_path / "folder" / "work"
    path.write_bytes(packed((entry(RECORD), b"{}"), (member, b"")))
    with pytest.raises(ElmoxError) as refused:
        restore(path, work)
    assert f"{path} holds {description}" in str(refused.value)
    assert "expected only files results/TASK/COLUMN/trial-K.json" in str(refused.value)
    assert not work.parent.exists()


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    from tasks.archive import keep, restore

    path, work = tmp_path / "x.tar.xz", tmp_path / "restored"
    write_records(tmp_path / "work", dev=1)
    keep(tmp_path / "work", path)
    whole = path.read_bytes()
    tar = lzma.decompress(whole)
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    broken = [whole[: len(whole) // 2], whole[:-1], b"", b"text", bytes(changed),
              lzma.compress(b"text"), lzma.compress(tar[:520])]  # fmt: skip
    for content in broken:
        path.write_bytes(content)
        with pytest.raises(ElmoxError, match=r"x\.tar\.xz is damaged or cut short .*get the file"):
            restore(path, work)
    with pytest.raises(ElmoxError, match="does not exist: give the --records"):
        restore(tmp_path / "nowhere", work)
    with pytest.raises(ElmoxError, match="cannot be read"):
        restore(tmp_path, work)
    assert not work.exists()
