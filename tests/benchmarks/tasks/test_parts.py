"""What the table of tasks is made of: intervals, counts, split corpora, MiniLM's layers."""

import csv
import io
import json
import lzma
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmox.errors import ElmoxError
from elmox.io.conllu import TreebankSentence
from elmox.tasks.data.conll2012 import Mention
from elmox.tasks.data.propositions import Argument, Proposition
from elmox.tasks.registry import find_task

Systems = dict[str, list[list[list[float]]]]


@pytest.mark.parametrize(("level", "low", "high"), [(0.95, 0, 100), (0.4, 50, 50)])
def test_interval_of_an_accuracy(level: float, low: float, high: float) -> None:
    """Two sentences, one of which only the first system gets right.

    Drawn twice, once or not at all, at odds of 1, 2 and 1, it makes a difference of 100, 50 or 0.
    """
    from tasks.counts import intervals

    systems: Systems = {"a": [[[1, 1], [0, 1]]], "b": [[[0, 1], [0, 1]]]}
    differences = intervals("pos", systems, [("a", "b"), ("b", "a")], level=level)
    one = differences["a", "b"]
    assert (one.estimate, one.low, one.high) == (50, low, high)
    other = differences["b", "a"]
    assert (other.estimate, other.low, other.high) == (-50, -high, -low)


@pytest.mark.parametrize(("level", "low", "high"), [(0.95, 50, 100), (0.4, 75, 75)])
def test_interval_of_an_f1_over_seeds(level: float, low: float, high: float) -> None:
    """One seed finds the first of two spans and a wrong one, the other both: F1 50 and 100.

    Of draws with the first sentence twice both have 100; with the second twice, 0 and 100.
    """
    from tasks.counts import intervals

    systems: Systems = {
        "a": [[[1, 1, 1], [0, 1, 1]], [[1, 1, 1], [1, 1, 1]]],
        "b": [[[0, 0, 1], [0, 0, 1]]],
    }
    difference = intervals("ner", systems, [("a", "b")], level=level)["a", "b"]
    assert (difference.estimate, difference.low, difference.high) == pytest.approx((75, low, high))


def test_the_same_against_itself() -> None:
    from tasks.counts import intervals

    counts = [[float(i % 2), 1.0] for i in range(30)]
    difference = intervals("nli", {"a": [counts], "b": [counts]}, [("a", "b")], samples=200)[
        "a", "b"
    ]
    assert (difference.estimate, difference.low, difference.high) == (0, 0, 0)


def _sentence(heads: tuple[int, ...], deprels: tuple[str, ...]) -> TreebankSentence:
    words = tuple("abcdefg"[: len(heads)])
    blank = ("_",) * len(heads)
    return TreebankSentence(words, blank, blank, blank, blank, heads, deprels, blank, 0)


def test_counts_add_up_to_the_score() -> None:
    """`counts_of` refuses counts whose sum has another score than the task gives."""
    from tasks.counts import counts_of

    from elmox.tasks.parsing.network import Parse
    from elmox.tasks.sentiment.network import Opinion
    from elmox.tasks.tagging.columns import TaggedSentence

    names = [
        TaggedSentence(("Ada", "met", "Bo"), ("B-PER", "O", "B-PER")),
        TaggedSentence(("No", "one"), ("O", "O")),
    ]
    predicted = [["B-PER", "O", "B-LOC"], ["O", "O"]]
    assert counts_of(find_task("ner"), names, predicted) == [[1, 2, 2], [0, 0, 0]]
    assert counts_of(find_task("pos"), names, predicted) == [[2, 3], [2, 2]]

    trees = [_sentence((0, 1), ("root", "obj")), _sentence((2, 0), ("nsubj", "root"))]
    parses = [Parse([0, 1], ["root", "nsubj"]), Parse([2, 0], ["nsubj:pass", "root"])]
    assert counts_of(find_task("parse"), trees, parses) == [[1, 2], [2, 2]]

    opinions = [Opinion(("good",), 3), Opinion(("bad",), 1)]
    likely = dict.fromkeys(("very negative", "negative", "neutral", "very positive"), 0.1)
    assert counts_of(find_task("sst"), opinions, [{**likely, "positive": 0.6}] * 2) == [
        [1, 1],
        [0, 1],
    ]


def test_counts_of_roles_and_entities() -> None:
    from tasks.counts import counts_of

    from elmox.tasks.coref.documents import Document
    from elmox.tasks.data.propositions import RoleSentence

    args = (Argument("ARG0", 0, 1), Argument("V", 1, 2), Argument("ARG1", 2, 3))
    sentence = RoleSentence("1", ("I", "eat", "it"), ("_",) * 3, (Proposition(1, "eat", "", args),))
    answer = [(Argument("ARG0", 0, 1), Argument("ARG2", 2, 3))]
    assert counts_of(find_task("srl"), [sentence], [answer]) == [[1, 2, 2]]

    first, second, third = (Mention(i, i + 1) for i in range(3))
    document = Document((("a", "b", "c"),), ((first, second, third),))
    (counts,) = counts_of(find_task("coref"), [document], [((first, second),)])
    assert counts[:4] == [1, 1, 1, 2]  # MUC: one correct link of one predicted and two gold


def _pack(path: Path, files: dict[str, str]) -> None:
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:xz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))


def test_every_tenth_sentence_is_dev(tmp_path: Path) -> None:
    from tasks.corpora import corpus_files

    folder = tmp_path / "data" / "chunking_conll2000"
    folder.mkdir(parents=True)
    text = "".join(f"w{i} NN B-NP\n\n" for i in range(25))
    (folder / "train.txt.xz").write_bytes(lzma.compress(text.encode()))
    (folder / "test.txt.xz").write_bytes(lzma.compress(b"x NN B-NP\n\n"))
    files = corpus_files("conll2000", tmp_path / "data", tmp_path / "work")
    chunk = find_task("chunk")
    assert [sentence.words[0] for sentence in chunk.read(files.dev)] == ["w9", "w19"]
    assert [len(chunk.read(path)) for path in files] == [23, 2, 1]
    (folder / "train.txt.xz").unlink()
    assert corpus_files("conll2000", tmp_path / "data", tmp_path / "work") == files  # made once


def test_documents_are_split_by_name(tmp_path: Path) -> None:
    from tasks.corpora import corpus_files

    from elmox.tasks.data.conll2012 import read_conll2012

    row = "\t".join(["x", "0", "0", "word", *"_" * 8, "(1)"])
    texts = {
        f"conll/{i:02}.conll": f"#begin document ({i:02}); part 0\n{row}\n\n#end document\n"
        for i in reversed(range(20))
    }
    _pack(tmp_path / "data/coref_litbank/litbank-coref-conll.tar.xz", texts)
    files = corpus_files("litbank", tmp_path / "data", tmp_path / "work")
    names = [[document.name for document in read_conll2012(path)] for path in files]
    assert names[1:] == [["08", "18"], ["09", "19"]]
    assert len(names[0]) == 16


def test_questions_with_an_answer(tmp_path: Path) -> None:
    from tasks.corpora import corpus_files

    from elmox.tasks.qa.squad import read_squad

    def rows(name: str) -> str:
        file = io.StringIO()
        columns = ["q_review_id", "question", "review", "human_ans_spans", "human_ans_indices"]
        writer = csv.writer(file)
        writer.writerow(columns)
        review = "It is loud. ANSWERNOTFOUND"
        writer.writerow([f"{name}1", "How is it?", review, "loud", "(6, 10)"])
        writer.writerow([f"{name}2", "Why?", review, "ANSWERNOTFOUND", "(12, 26)"])
        return file.getvalue()

    parts = {f"SubjQA/music/splits/{part}.csv": rows(part) for part in ("train", "dev", "test")}
    _pack(
        tmp_path / "data/qa_subjqa/subjqa-splits.tar.xz",
        {**parts, "SubjQA/books/splits/test.csv": rows("books")},
    )
    files = corpus_files("subjqa", tmp_path / "data", tmp_path / "work")
    corpora = [read_squad(path) for path in files]
    assert [[question.id for question in questions] for questions in corpora] == [
        ["train1"],
        ["dev1"],
        ["test1"],
    ]
    assert corpora[0][0].answers[0].text == "loud"


VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "a", "'", "s", "##s"]
VOCABULARY += ["na", "##ive", "日", ".", "word"]


@pytest.fixture
def minilm(tmp_path: Path) -> Path:
    """A tiny BERT with random weights, as the package has it."""
    from safetensors.torch import save_file

    config = {
        "num_attention_heads": 2, "layer_norm_eps": 1e-12, "max_position_embeddings": 12,
        "num_hidden_layers": 2, "hidden_size": 8, "intermediate_size": 16, "vocab_size": 16,
        "hidden_act": "gelu", "type_vocab_size": 2, "model_type": "bert",
    }  # fmt: skip
    wide = {f"attention.self.{name}": (8, 8) for name in ("query", "key", "value")}
    wide |= {"attention.output.dense": (8, 8), "output.dense": (8, 16)}
    wide |= {"intermediate.dense": (16, 8)}
    shapes: dict[str, tuple[int, ...]] = {
        f"embeddings.{name}_embeddings.weight": (rows, 8)
        for name, rows in (("word", 16), ("position", 12), ("token_type", 2))
    }
    norms = ["embeddings"]
    for number in range(2):
        layer = f"encoder.layer.{number}"
        norms += [f"{layer}.attention.output", f"{layer}.output"]
        for name, shape in wide.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
    shapes |= {f"{name}.LayerNorm.{part}": (8,) for name in norms for part in ("weight", "bias")}
    generator = torch.Generator().manual_seed(0)
    weights = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    folder = tmp_path / "minilm"
    folder.mkdir()
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    return folder


def open_minilm(folder: Path) -> Any:
    from tasks.minilm import MiniLm

    return MiniLm(folder, torch.device("cpu"))


@pytest.mark.parametrize(
    ("word", "pieces"),
    [
        ("Unaffable", ["un", "##aff", "##able"]),
        ("Naïve's", ["na", "##ive", "'", "s"]),
        ("a.s", ["a", ".", "s"]),
        ("日日", ["日", "日"]),
        ("as", ["a", "##s"]),
        ("xyz", ["[UNK]"]),
        ("a" * 101, ["[UNK]"]),
        ("\u200b", ["[UNK]"]),  # nothing is left of it
        ("", ["[UNK]"]),
    ],
)
def test_words_are_cut_into_pieces(word: str, pieces: list[str]) -> None:
    from tasks.minilm import WordPiece

    assert [VOCABULARY[i] for i in WordPiece(VOCABULARY).pieces(word)] == pieces


def test_a_word_is_the_mean_of_its_pieces_whatever_else_is_read(minilm: Path) -> None:
    model = open_minilm(minilm)
    sentences = [["Unaffable", "a"], ["word"], [], ["a", "."] * 4]
    together = model.layers_of(sentences)
    assert [layers.shape for layers in together] == [(3, len(s), 8) for s in sentences]
    for sentence, layers in zip(sentences, together, strict=True):
        np.testing.assert_allclose(model.layers_of([sentence])[0], layers, atol=1e-5)
    pieces = model.layers_of([["word"], ["a"]])
    assert not np.allclose(pieces[0], pieces[1])
    states = model._states([[4, 5, 6, 7]])[:, 0].numpy()
    np.testing.assert_allclose(together[0][:, 0], states[:, :3].mean(1), atol=1e-5)
    np.testing.assert_allclose(together[0][:, 1], states[:, 3], atol=1e-5)


def test_a_long_sentence_is_read_in_windows_of_whole_words(minilm: Path) -> None:
    model = open_minilm(minilm)
    sentence = ["word"] * 9 + ["Unaffable", "a"]  # windows of 10 pieces: the 10th word comes later
    (layers,) = model.layers_of([sentence])
    first, second = model.layers_of([sentence[:9], sentence[9:]])
    np.testing.assert_allclose(layers, np.concatenate([first, second], axis=1), atol=1e-5)


def test_the_encoder_gives_what_bert_gave(minilm: Path) -> None:
    """The first three numbers of each piece's hidden states, by transformers 5.22.2, torch 2.13.

    Made by the next test's lines: a `BertModel` without pooling, in eval mode, with the weights of
    the fixture, on [CLS] un ##aff ##able a [SEP].
    """
    expected = [
        [[0.94361, 0.09869, -1.47773], [1.63488, -0.00997, -0.82132],
         [1.28724, 0.05098, -1.25361], [1.80643, -0.07642, -0.14105]],
        [[-0.84783, -1.41252, -1.13724], [-0.84428, -1.41147, -1.14458],
         [-0.84584, -1.42326, -1.08495], [-0.84269, -1.40929, -1.12361]],
        [[1.55386, -0.33736, -1.32227], [1.54824, -0.33709, -1.34317],
         [1.56166, -0.33683, -1.29559], [1.55584, -0.33672, -1.31443]],
    ]  # fmt: skip
    states = open_minilm(minilm)._states([[4, 5, 6, 7]])[:, 0, :, :3].numpy()
    np.testing.assert_allclose(states, expected, atol=2e-5)


def test_digest_of_another_minilm(minilm: Path, tmp_path: Path) -> None:
    """A fit on its layers records this digest, by which results are compared."""
    from tasks.records import Setup

    here = Setup(tmp_path, minilm=minilm).digest("minilm")
    assert here == open_minilm(minilm).digest
    other = shutil.copytree(minilm, tmp_path / "other")
    assert Setup(tmp_path, minilm=other).digest("minilm") == here
    third = shutil.copytree(minilm, tmp_path / "third")
    (third / "vocab.txt").write_text("\n".join([*VOCABULARY, "new"]) + "\n", encoding="utf-8")
    assert Setup(tmp_path, minilm=third).digest("minilm") != here


def test_the_encoder_is_berts(minilm: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(**json.loads((minilm / "config.json").read_text()))
    model = open_minilm(minilm)
    theirs = transformers.BertModel(config, add_pooling_layer=False).eval()
    left = theirs.load_state_dict(model._weights, strict=False)
    assert not [name for name in left.missing_keys if "position_ids" not in name]
    ids = torch.tensor([[2, 4, 5, 6, 7, 3]])
    with torch.no_grad():
        states = theirs(input_ids=ids, output_hidden_states=True).hidden_states
    np.testing.assert_allclose(
        model._states([[4, 5, 6, 7]])[:, 0].numpy(), torch.stack(states)[:, 0, 1:-1], atol=1e-5
    )


def test_a_fit_on_its_layers(minilm: Path, tmp_path: Path) -> None:
    from tagged_files import NAMES, write_columns
    from tasks.minilm import MiniLmSession, write_layers

    from elmox.tasks.recipe import task_recipe

    data = write_columns(tmp_path / "names.txt", NAMES)
    small = ["words.dim=8", "words.filters=0", "head.hidden=[8]", "fit.least_updates=1"]
    logged: list[str] = []
    scores = []
    for layers in ("mix", "top"):
        session = MiniLmSession(
            "ner",
            data,
            data,
            minilm=minilm,
            device="cpu",
            cache=tmp_path / "cache",
            log=logged.append,
        )
        recipe = task_recipe(
            None, [*small, "elmo.model=minilm", f"elmo.layers={layers}", "fit.epochs=2"]
        )
        result = session.fit(recipe, tmp_path / layers)
        examples = session.task.read(data)
        answers = session.predict(Path(result.best.model), examples)
        assert session.task.score(examples, answers) == result.best.dev
        scores.append(result)
    assert (
        sum(line.startswith("MiniLM's layers") for line in logged) == 1
    )  # the second reads the first's
    assert len(list((tmp_path / "cache").iterdir())) == 1
    config = json.loads((Path(scores[0].best.model) / "config.json").read_text())
    assert config["elmo"]["shape"] == {"num_layers": 3, "dim": 8}

    (cached,) = (tmp_path / "cache").iterdir()
    shutil.rmtree(cached)
    write_layers(open_minilm(minilm), [["word"]], cached)
    with pytest.raises(ElmoxError, match=r"has 1 entries, expected \d+: delete "):
        session.fit(recipe, tmp_path / "again")


def test_no_minilm(tmp_path: Path) -> None:
    with pytest.raises(ElmoxError, match="is not MiniLM: give the model folder"):
        open_minilm(tmp_path)
