"""AI2's softmax files and vocabularies: read, written back, and refused."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from broken import cut
from checkpoints import VOCABULARY, random_options, write_word_model
from language_models import OURS, WORDS, TinyLm, tiny_lm, write_softmax

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.model.checkpoint import Softmax, build_softmax
from elmox.model.softmax import AdaptiveSoftmax
from elmox.pretrained.ai2 import write_ai2
from elmox.pretrained.ai2_softmax import read_ai2_softmax


@pytest.fixture
def lm(tmp_path: Path) -> TinyLm:
    return tiny_lm(tmp_path / "lm")


@pytest.mark.parametrize("prefix", ["softmax/", ""])
@pytest.mark.parametrize("words", [WORDS, OURS])
def test_rows_stay_with_their_words(prefix: str, words: Sequence[str], tmp_path: Path) -> None:
    """Wherever the special words stand in the file, ours come first, the others in their order."""
    rng = np.random.default_rng(0)
    path, vocab = write_softmax(tmp_path, rng, words=words, prefix=prefix)
    softmax = read_ai2_softmax(path, vocab, 6)
    assert softmax.vocab == OURS
    with h5py.File(path) as file:
        weight, bias = file[f"{prefix}W"][()], file[f"{prefix}b"][()]
    for place, word in enumerate(softmax.vocab):
        row = words.index(word)
        np.testing.assert_array_equal(softmax.tensors["weight"][place].numpy(), weight[row])
        assert softmax.tensors["bias"][place].item() == bias[row]


def test_windows_line_ends(lm: TinyLm) -> None:
    lm.vocab.write_bytes(lm.vocab.read_bytes().replace(b"\n", b"\r\n"))
    assert read_ai2_softmax(lm.softmax, lm.vocab, 6).vocab == OURS


def test_written_and_read_again(lm: TinyLm, tmp_path: Path) -> None:
    checkpoint = lm.elmo().checkpoint()
    write_ai2(checkpoint, tmp_path / "out.hdf5")
    names = {path.name for path in tmp_path.glob("out*")}
    assert names == {"out.hdf5", "out_options.json", "out_softmax.hdf5", "out_vocab.txt"}
    again = Elmo.from_pretrained(tmp_path / "out.hdf5").checkpoint().softmax
    before = checkpoint.softmax
    assert before is not None
    assert again is not None
    assert again.vocab == before.vocab
    for name, tensor in before.tensors.items():
        assert again.tensors[name].equal(tensor)


def test_a_folder_with_a_softmax_has_one_weight_file(lm: TinyLm) -> None:
    """The softmax next to the weights does not make a folder ambiguous."""
    elmo = Elmo.from_pretrained(lm.weights.parent)
    assert elmo.encode("a word").shape == (12,)


def test_an_old_softmax_does_not_stay_next_to_new_weights(lm: TinyLm, tmp_path: Path) -> None:
    checkpoint = lm.elmo().checkpoint()
    write_ai2(checkpoint, tmp_path / "out.hdf5")
    bare = replace(checkpoint, softmax=None)
    with pytest.raises(ElmoxError, match="exists already"):
        write_ai2(bare, tmp_path / "out.hdf5")
    write_ai2(bare, tmp_path / "out.hdf5", force=True)
    assert Elmo.from_pretrained(tmp_path / "out.hdf5").checkpoint().softmax is None


def test_adaptive_softmax_is_refused(lm: TinyLm, tmp_path: Path) -> None:
    layer = AdaptiveSoftmax(len(OURS), 6, (5,))
    layer.init(torch.Generator().manual_seed(0))
    checkpoint = replace(lm.elmo().checkpoint(), softmax=Softmax(layer.state_dict(), OURS))
    with pytest.raises(ElmoxError, match=r"adaptive.*softmax=False"):
        write_ai2(checkpoint, tmp_path / "out.hdf5")
    assert not list(tmp_path.glob("out*"))


def test_word_models_predict_what_they_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    vocabulary = (*OURS[:3], *(word for word in VOCABULARY if word not in OURS[:3]))
    weights = write_word_model(tmp_path / "model", random_options(), rng, vocabulary=vocabulary)
    softmax, vocab = write_softmax(tmp_path / "same", rng, words=vocabulary)
    same = Elmo.from_pretrained(weights, softmax=softmax, softmax_vocab=vocab)
    write_ai2(same.checkpoint(), tmp_path / "out.hdf5")
    again = Elmo.from_pretrained(tmp_path / "out.hdf5")
    sentence = [["the", "dog"]]
    np.testing.assert_allclose(
        again.score(sentence)[0].forward, same.score(sentence)[0].forward, atol=1e-6
    )
    softmax, vocab = write_softmax(tmp_path / "other", rng, words=(*OURS[:3], "dog"))
    other = Elmo.from_pretrained(weights, softmax=softmax, softmax_vocab=vocab)
    with pytest.raises(ElmoxError, match="word models predict the words that they read"):
        write_ai2(other.checkpoint(), tmp_path / "other.hdf5")


@pytest.mark.parametrize("word", ["two\nlines", "carriage\rreturn", "lone \ud800"])
def test_words_that_no_vocabulary_file_can_hold(lm: TinyLm, tmp_path: Path, word: str) -> None:
    tensors = read_ai2_softmax(lm.softmax, lm.vocab, 6).tensors
    checkpoint = replace(lm.elmo().checkpoint(), softmax=Softmax(tensors, (*OURS[:-1], word)))
    with pytest.raises(ElmoxError, match="a word of the vocabulary"):
        write_ai2(checkpoint, tmp_path / "out.hdf5")
    with pytest.raises(ElmoxError, match="a word of the vocabulary"):
        Elmo(checkpoint).save_pretrained(tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def put(name: str, value: object) -> Callable[[TinyLm], None]:
    """A change: another array in the softmax file, or none."""

    def change(lm: TinyLm) -> None:
        with h5py.File(lm.softmax, "r+") as file:
            del file[name]
            if value is not None:
                file[name] = value

    return change


def words(edit: Callable[[bytes], bytes]) -> Callable[[TinyLm], None]:
    """A change: another vocabulary file."""

    def change(lm: TinyLm) -> None:
        lm.vocab.write_bytes(edit(lm.vocab.read_bytes()))

    return change


BROKEN: dict[str, tuple[Callable[[TinyLm], object], tuple[str, ...]]] = {
    "a word more": (
        words(lambda content: content + b"more\n"),
        ("softmax/W has shape (11, 6)", "lm_vocab.txt requires (12, 6)", "do not belong together"),
    ),
    "no <UNK>": (words(lambda content: content.replace(b"<UNK>", b"<unk>")), ("lacks <UNK>",)),
    "no </S>": (words(lambda content: content.replace(b"</S>", b"end")), ("lacks </S>",)),
    "empty vocabulary": (words(lambda content: b""), ("lm_vocab.txt holds no words",)),
    "vocabulary not UTF-8": (words(lambda content: b"\xff" + content), ("not UTF-8",)),
    "no W": (put("softmax/W", None), ("lacks the array softmax/W",)),
    "no b": (put("softmax/b", None), ("lacks the array softmax/b",)),
    "b of another length": (put("softmax/b", np.zeros(10)), ("softmax/b has shape (10,)",)),
    "W of another width": (
        put("softmax/W", np.zeros((11, 7))),
        ("softmax/W has rows of 7", "projection is 6", "another model"),
    ),
    "W of one dimension": (put("softmax/W", np.zeros(11)), ("softmax/W has shape (11,)",)),
    "text": (put("softmax/b", ["a"] * 11), ("softmax/b does not hold numbers",)),
    "NaN": (put("softmax/b", np.full(11, np.nan)), ("bias contains NaN",)),
    "infinite": (put("softmax/W", np.full((11, 6), np.inf)), ("weight contains NaN or infinite",)),
    "cut": (lambda lm: cut(lm.softmax, 0.5), ("softmax_weights.hdf5 cannot be read as HDF5",)),
    "no HDF5": (lambda lm: lm.softmax.write_text("W"), ("cannot be read as HDF5",)),
    "weights of a model": (
        lambda lm: lm.softmax.write_bytes(lm.weights.read_bytes()),
        ("lacks the array softmax/W",),
    ),
}


@pytest.mark.parametrize(("change", "expected"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_files(
    change: Callable[[TinyLm], object], expected: tuple[str, ...], lm: TinyLm
) -> None:
    change(lm)
    elmo = lm.elmo()  # vectors do not need it
    with pytest.raises(ElmoxError) as caught:
        elmo.score(["a word"])
    message = str(caught.value)
    assert "\n" not in message
    for part in expected:
        assert part in message
    with pytest.raises(ElmoxError):
        build_softmax(elmo.checkpoint())
