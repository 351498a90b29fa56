"""The comparison of embeddings in spaCy: its corpora, its configurations, its table."""

from pathlib import Path
from typing import Any

import pytest
import spacy
from tagged_files import NAMES, write_columns

TREE = """\
1\tcats\t_\tNOUN\tNNS\t_\t2\tnsubj\t_\t_
2\tsleep\t_\tVERB\tVBP\t_\t0\troot\t_\t_
3\t.\t_\tPUNCT\t.\t_\t2\tpunct\t_\t_

"""


@pytest.fixture
def gain() -> Any:
    import spacy_gain

    return spacy_gain


def run(gain: Any, folder: Path, study: str, embedding: str) -> Any:
    limits = {"steps": 7, "eval_frequency": 3, "max_sentences": None, "model": "some-model"}
    return gain.Run(study, embedding, 2, tasks=folder, work=folder, **limits)


def test_corpora(gain: Any, tmp_path: Path) -> None:
    vocab = spacy.blank("en").vocab
    (tmp_path / "trees.conllu").write_text(TREE * 3, encoding="utf-8")
    trees = list(gain.read_docs(tmp_path / "trees.conllu", vocab, 2))
    assert len(trees) == 2
    assert [(t.text, t.tag_, t.head.i, t.dep_) for t in trees[0]] == [
        ("cats", "NNS", 1, "nsubj"),
        ("sleep", "VBP", 1, "root"),
        (".", ".", 1, "punct"),
    ]
    columns = write_columns(tmp_path / "names.txt", NAMES)
    names = list(gain.read_docs(columns, vocab, None))
    assert len(names) == len(NAMES)
    assert [(e.text, e.label_) for e in names[0].ents] == [
        ("Ada Lovelace", "PER"),
        ("London", "LOC"),
    ]


@pytest.mark.parametrize("study", ["ewt", "btc"])
def test_only_the_embeddings_differ(gain: Any, tmp_path: Path, study: str) -> None:
    default, elmox = (
        gain.configuration(run(gain, tmp_path, study, name)) for name in ("default", "elmox")
    )
    embeds = [config["components"]["tok2vec"]["model"].pop("embed") for config in (default, elmox)]
    assert default == elmox
    assert embeds[0]["@architectures"] == "spacy.MultiHashEmbed.v2"
    assert embeds[1]["@architectures"] == "elmox.Tok2Vec.v1"
    assert embeds[0]["width"] == embeds[1]["width"]
    assert embeds[1]["model"] == "some-model"
    assert default["training"]["max_steps"] == 7
    assert default["system"]["seed"] == 2


def test_a_run_with_other_limits_is_not_done(gain: Any, tmp_path: Path) -> None:
    from dataclasses import replace

    first = run(gain, tmp_path, "ewt", "elmox")
    assert not first.is_done()
    first.result.write_text(gain.json.dumps({"settings": first.settings()}), encoding="utf-8")
    assert first.is_done()
    assert not replace(first, steps=8).is_done()
    first.log.write_text("E  #  LOSS\n---  ---\n  0       0   1.00\n  2      15   0.50\n", "utf-8")
    assert first.step() == 15


def test_the_table(gain: Any) -> None:
    def record(study: str, embedding: str, seed: int, **scores: float) -> dict[str, Any]:
        settings = {"study": study, "embedding": embedding, "seed": seed}
        mix = {"mix": [0.2, 0.3, 0.5], "gamma": 1.5} if embedding == "elmox" else {}
        return {"settings": settings, "scores": scores} | mix

    runs = [
        record("ewt", embedding, seed, tag_acc=90 + gain_, dep_uas=80 + gain_, dep_las=70 + gain_)
        for embedding, gain_ in (("default", 0), ("elmox", 4))
        for seed in range(2)
    ]
    runs += [record("btc", "default", 0, ents_f=40.0), record("btc", "default", 1, ents_f=50.0)]
    runs += [record("btc", "elmox", 0, ents_f=60.0), record("btc", "elmox", 1, ents_f=62.0)]
    machine = {"cpu": "a processor", "threads": 1}
    facts = {"machine": machine, "spacy": "3.8", "command": "x", "seeds": 2, "steps": 7, "jobs": 2}
    table = gain.to_markdown(facts | {"runs": runs})
    assert "| EWT tags | 90.0 (90.0 to 90.0) | 94.0 (94.0 to 94.0) | 40% |" in table
    assert "| BTC entities F1 | 45.0 (40.0 to 50.0) | 61.0 (60.0 to 62.0) | 29% |" in table
    assert "| btc, seed 1 | 0.20, 0.30, 0.50 | 1.50 |" in table
