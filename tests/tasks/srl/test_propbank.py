"""Semantic roles: what is read of JSON lines, and that no impossible proposition passes."""

import json
from pathlib import Path
from typing import Any

import pytest
from shared_data import SHARED

from elmox.errors import ElmoxError
from elmox.tasks.data.propositions import Argument, Proposition, RoleSentence
from elmox.tasks.srl.propbank import read_propbank

EWT = SHARED / "tasks" / "srl_propbank_ewt"

FELL: dict[str, Any] = {
    "sent_id": "a-1",
    "words": ["Down", "it", "fell", "."],
    "xpos": ["RB", "PRP", "VBD", "."],
    "props": [
        {
            "pred": 2,
            "lemma": "fall",
            "frame": "fall.01",
            "args": [["V", 2, 2], ["ARGM-DIR", 0, 0], ["ARG1", 1, 1]],
        }
    ],
}


def changed(**changes: Any) -> dict[str, Any]:
    """The sentence with other values, in the proposition where it has such a name."""
    proposition = FELL["props"][0]
    inner = {name: value for name, value in changes.items() if name in proposition}
    outer = {name: value for name, value in changes.items() if name not in proposition}
    return {**FELL, "props": [{**proposition, **inner}], **outer}


def write(folder: Path, *lines: Any) -> Path:
    path = folder / "roles.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return path


def test_propositions_with_their_spans(tmp_path: Path) -> None:
    path = write(tmp_path, FELL, changed(props=[]))
    path.write_text(path.read_text("utf-8").replace("}\n{", "}\n\n{"), "utf-8")
    args = (Argument("ARGM-DIR", 0, 1), Argument("ARG1", 1, 2), Argument("V", 2, 3))
    fell = RoleSentence(
        id="a-1",
        words=("Down", "it", "fell", "."),
        xpos=("RB", "PRP", "VBD", "."),
        propositions=(Proposition(2, "fall", "fall.01", args),),
    )
    silent = RoleSentence(fell.id, fell.words, fell.xpos, ())
    assert list(read_propbank(path)) == [fell, silent]


def test_a_predicate_in_pieces_may_be_its_second(tmp_path: Path) -> None:
    path = write(tmp_path, changed(args=[["V", 0, 0], ["C-V", 2, 2]]))
    (sentence,) = read_propbank(path)
    assert sentence.propositions[0].pred == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ([], "a list, expected an object"),
        (changed(words="Down"), "words is 'Down', expected a list of strings"),
        (changed(words=["Down", 3]), r"words is \['Down', 3\], expected"),
        (changed(xpos=["RB"]), "4 words, 1 tags: expected as many"),
        (changed(words=[], xpos=[]), "0 words, 0 tags"),
        (changed(sent_id=3), "sent_id is 3, expected a string"),
        (changed(props=None), "props is None, expected a list"),
        (changed(props=["V"]), "a proposition is 'V', expected an object"),
        (changed(pred="2"), "pred is '2', expected the number of a word"),
        (changed(pred=True), "pred is True, expected"),
        (changed(pred=4), "the predicate is word 4, but the sentence has 4 words"),
        (changed(pred=-1), "the predicate is word -1"),
        (changed(lemma=None), "lemma is None, expected a string"),
        (changed(frame=1), "frame is 1, expected a string"),
        (changed(args={}), "args is {}, expected a list of"),
        (changed(args=[["V", 2]]), r"an argument is \['V', 2\], expected \[label, first, last\]"),
        (changed(args=[["V", "2", 2]]), "an argument is"),
        (changed(args=[["", 2, 2]]), "an argument is"),
        (changed(args=[["V", 2, 4]]), r"V \(words 2 to 4\) is not in the sentence"),
        (changed(args=[["V", -1, 2]]), r"V \(words -1 to 2\) is not in the sentence"),
        (changed(args=[["V", 2, 1]]), r"V \(words 2 to 1\) is not in the sentence"),
        (
            changed(args=[["V", 2, 2], ["ARG1", 1, 2]]),
            r"ARG1 \(words 1 to 2\) and V \(words 2 to 2\) overlap",
        ),
        (changed(args=[]), "the predicate at word 2 has no arguments, expected one V"),
        (
            changed(args=[["V", 2, 2], ["V", 3, 3]]),
            "the predicate at word 2 has V .*expected one V",
        ),
        (changed(args=[["V", 1, 1]]), r"no V or C-V holds the predicate, word 2: V \(words 1 to 1"),
    ],
)
def test_malformed_files_are_refused(tmp_path: Path, line: Any, message: str) -> None:
    sentences = read_propbank(write(tmp_path, FELL, line))
    next(sentences)
    with pytest.raises(ElmoxError, match=rf"roles.jsonl, line 2: {message}") as failure:
        next(sentences)
    assert "\n" not in str(failure.value)


def test_a_line_that_is_not_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "roles.jsonl"
    path.write_text("Down it fell.\n")
    with pytest.raises(ElmoxError, match=r"roles.jsonl, line 1: not JSON"):
        list(read_propbank(path))


@pytest.mark.skipif(not EWT.is_dir(), reason=f"no PropBank at {EWT} (set ELMOX_SHARED)")
def test_the_real_propbank() -> None:
    counts = {}
    for part in ("train", "dev", "test"):
        sentences = list(read_propbank(EWT / f"{part}.jsonl.xz"))
        predicates = [
            sentence.xpos[prop.pred] for sentence in sentences for prop in sentence.propositions
        ]
        verbal = sum(tag.startswith("V") for tag in predicates)
        counts[part] = (len(sentences), len(predicates), verbal)
    assert counts == {
        "train": (12491, 40384, 31096),
        "dev": (1959, 4956, 3793),
        "test": (2049, 4791, 3648),
    }
