"""`ElmoEmbedding.save_pretrained` and back: the same vectors, and clear errors."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from shell import tree

from elmox import Elmo, ElmoEmbedding, ElmoxError
from elmox.io.tensors import read_tensors, write_tensors

SENTENCES = [["Live", "in", "the", "present"], ["I", "will"], []]


def trained(embedding: ElmoEmbedding) -> ElmoEmbedding:
    """Take a step, so that every learned number differs from its start."""
    optimizer = torch.optim.SGD([p for p in embedding.parameters() if p.requires_grad], lr=0.1)
    (embedding(SENTENCES).mixes.square().sum() + embedding.mix_penalty(0.1)).backward()
    optimizer.step()
    return embedding.eval()


def vectors(embedding: ElmoEmbedding) -> torch.Tensor:
    with torch.no_grad():
        mixes: torch.Tensor = embedding.eval()(SENTENCES).mixes
    return mixes


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_mixes": 3, "dropout": 0.5, "normalize": "token"},
        {"layers": "top", "keep_boundaries": True},
        {"layers": 1, "normalize": "batch"},
        {"mix_weights": [0.0, 1.0, 2.0], "fixed_mix": True},
    ],
)
@pytest.mark.parametrize("trainable", [False, True])
def test_round_trip(options: dict[str, Any], trainable: bool, tiny: Path, tmp_path: Path) -> None:
    embedding = trained(ElmoEmbedding.from_pretrained(tiny, trainable=trainable, **options))
    embedding.save_pretrained(tmp_path / "saved")
    assert (tmp_path / "saved" / "elmo").exists() == trainable
    again = ElmoEmbedding.from_pretrained(tmp_path / "saved")
    assert torch.equal(vectors(again), vectors(embedding))
    assert again.state_dict().keys() == embedding.state_dict().keys()
    learned = [
        [name for name, parameter in each.named_parameters() if parameter.requires_grad]
        for each in (embedding, again)
    ]
    assert learned[0] == learned[1]
    assert repr(again.scalar_mix) == repr(embedding.scalar_mix)


def test_the_bundled_model_is_stored_by_its_name(tmp_path: Path) -> None:
    ElmoEmbedding.from_pretrained(num_mixes=2).save_pretrained(tmp_path / "saved")
    stored = json.loads((tmp_path / "saved" / "embedding.json").read_text())
    assert stored["bilm"]["path"] == "english-small"
    assert sorted(tree(tmp_path / "saved")) == [
        "checksums.json", "embedding.json", "mix.safetensors",
    ]  # fmt: skip
    assert ElmoEmbedding.from_pretrained(tmp_path / "saved").scalar_mix.num_mixes == 2


def test_a_bilm_that_moved(tiny: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny.parent, tmp_path / "old")
    weights = tmp_path / "old" / tiny.name
    embedding = ElmoEmbedding.from_pretrained(weights)
    embedding.save_pretrained(tmp_path / "saved")
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(ElmoxError, match=r"old/.*cannot be loaded; give its new path with bilm="):
        ElmoEmbedding.from_pretrained(tmp_path / "saved")
    again = ElmoEmbedding.from_pretrained(tmp_path / "saved", bilm=tmp_path / "new" / tiny.name)
    assert torch.equal(vectors(again), vectors(embedding))
    with pytest.raises(ElmoxError, match="saved with another biLM than english-small"):
        ElmoEmbedding.from_pretrained(tmp_path / "saved", bilm="english-small")


def test_changed_weights_and_states_are_saved_themselves(tiny: Path, tmp_path: Path) -> None:
    warm = Elmo.from_pretrained(tiny)
    warm.warm_up([["some", "text"]])
    changed = ElmoEmbedding.from_pretrained(tiny)
    with torch.no_grad():
        changed.bilm.get_parameter("lstm.0.bias").add_(0.5)
    made = Elmo(warm.checkpoint())  # not loaded from a path
    for number, embedding in enumerate((ElmoEmbedding(warm), changed, ElmoEmbedding(made))):
        with pytest.raises(ElmoxError, match="save_bilm=False"):
            embedding.save_pretrained(tmp_path / str(number), save_bilm=False)
        embedding.save_pretrained(tmp_path / str(number))
        assert (tmp_path / str(number) / "elmo").is_dir()
        again = ElmoEmbedding.from_pretrained(tmp_path / str(number))
        torch.testing.assert_close(vectors(again), vectors(embedding), rtol=0, atol=2e-6)
    assert ElmoEmbedding.from_pretrained(tmp_path / "0").elmo.state == "warm"


def test_precision_is_chosen_when_it_is_loaded(tiny: Path, tmp_path: Path) -> None:
    half = ElmoEmbedding.from_pretrained(tiny, dtype="bfloat16")
    half.save_pretrained(tmp_path / "saved")
    assert not (tmp_path / "saved" / "elmo").exists()  # the rounded weights are no others
    again = ElmoEmbedding.from_pretrained(tmp_path / "saved", dtype="bfloat16")
    assert torch.equal(vectors(again), vectors(half))
    assert ElmoEmbedding.from_pretrained(tmp_path / "saved").elmo.dtype == torch.float32


def test_options_that_replace_saved_ones(tiny: Path, tmp_path: Path) -> None:
    ElmoEmbedding.from_pretrained(tiny, 2, 0.5).save_pretrained(tmp_path / "saved")
    again = ElmoEmbedding.from_pretrained(
        tmp_path / "saved", dropout=0.1, trainable=True, keep_boundaries=True, device="cpu"
    )
    assert (again.scalar_mix.dropout, again.trainable, again.keep_boundaries) == (0.1, True, True)
    for name, value in {"num_mixes": 3, "layers": "top", "state": "zero"}.items():
        with pytest.raises(ElmoxError, match=f"options of its own: leave out {name}"):
            ElmoEmbedding.from_pretrained(tmp_path / "saved", **{name: value})  # type: ignore[arg-type]
    with pytest.raises(ElmoxError, match="bilm belongs to a saved embedding"):
        ElmoEmbedding.from_pretrained(tiny, bilm="x")
    with pytest.raises(TypeError, match="num_mixs"):
        ElmoEmbedding.from_pretrained(tiny, num_mixs=2)  # type: ignore[call-arg]


def test_nothing_is_overwritten_unless_forced(tiny: Path, tmp_path: Path) -> None:
    embedding = ElmoEmbedding.from_pretrained(tiny)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("precious")
    for force in (False, True):
        with pytest.raises(ElmoxError, match="home"):
            embedding.save_pretrained(tmp_path / "home", force=force)
    embedding.save_pretrained(tmp_path / "saved")
    before = tree(tmp_path)
    with pytest.raises(ElmoxError, match="exists already"):
        embedding.save_pretrained(tmp_path / "saved")
    assert tree(tmp_path) == before
    trained(embedding).save_pretrained(tmp_path / "saved", save_bilm=True, force=True)
    assert torch.equal(
        vectors(ElmoEmbedding.from_pretrained(tmp_path / "saved")), vectors(embedding)
    )


def test_other_loaders_refuse_it(tiny: Path, tmp_path: Path) -> None:
    ElmoEmbedding.from_pretrained(tiny).save_pretrained(tmp_path / "saved")
    with pytest.raises(ElmoxError, match=r"load it with ElmoEmbedding\.from_pretrained"):
        Elmo.from_pretrained(tmp_path / "saved")


def setting(name: str, value: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        settings = json.loads((folder / "embedding.json").read_text())
        (folder / "embedding.json").write_text(json.dumps(settings | {name: value}))

    return change


def tensor(name: str, value: torch.Tensor | None) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        tensors = read_tensors(folder / "mix.safetensors")
        if value is None:
            del tensors[name]
        else:
            tensors[name] = value
        write_tensors(tensors, folder / "mix.safetensors")

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (setting("model_type", "elmo"), "expected model_type 'elmox-embedding'"),
        (setting("format", 2), "upgrade elmox"),
        (setting("num_mixes", 10**15), "does not have 1000000000000000 mixes"),
        (setting("num_mixes", -1), "does not have -1 mixes"),
        (setting("layers", "bottom"), "embedding.json: layers"),
        (setting("layers", 9), "layers=9: expected 'mix', 'top', or an index from 0 to 2"),
        (setting("layers", "top"), "mix.safetensors: weights is missing or of another shape"),
        (setting("dropout", 7), "dropout is 7"),
        (setting("digest", "0"), "saved with another biLM"),
        (setting("more", 1), "embedding.json: more"),
        (setting("bilm", {"path": "/no/such/model"}), "/no/such/model, which cannot be loaded"),
        (setting("bilm", None), "elmo does not exist"),
        (tensor("gamma", None), "does not have 1 mixes"),
        (tensor("gamma", torch.tensor([torch.nan])), "gamma contains NaN"),
        (tensor("weights", torch.zeros(1, 4)), "weights is missing or of another shape"),
        (tensor("more", torch.zeros(1)), "more is missing or of another shape"),
        (lambda folder: (folder / "mix.safetensors").unlink(), "mix.safetensors"),
        (lambda folder: (folder / "mix.safetensors").write_bytes(b"PK"), "damaged or cut short"),
        (lambda folder: (folder / "embedding.json").write_text("{"), "is not JSON"),
    ],
)
def test_damaged_files(
    damage: Callable[[Path], object], message: str, tiny: Path, tmp_path: Path
) -> None:
    ElmoEmbedding.from_pretrained(tiny).save_pretrained(tmp_path / "saved")
    (tmp_path / "saved" / "checksums.json").unlink()
    damage(tmp_path / "saved")
    with pytest.raises(ElmoxError, match=message) as caught:
        ElmoEmbedding.from_pretrained(tmp_path / "saved", device="cpu")
    assert len(str(caught.value).splitlines()) == 1


def test_repr(tiny: Path) -> None:
    embedding = ElmoEmbedding.from_pretrained(tiny, num_mixes=2, dropout=0.5)
    shown = repr(embedding)
    assert "weights.hdf5', 3 layers of dim 12" in shown
    assert "LayerMix(num_layers=3, num_mixes=2, dropout=0.5, coefficients=" in shown
    assert "trainable=False" in shown
    assert len(shown.splitlines()) == 5
    assert repr(embedding(SENTENCES)) == "Mixed(mixes=(2, 3, 4, 12), mask=(3, 4))"
