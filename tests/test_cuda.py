"""On a GPU: the same vectors, low precision within its tolerance, and real exhaustion of memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corpora import small_corpus
from golden import BILM_FIXTURES, golden_calls
from language_models import tiny_lm
from shared_data import needs_shared
from training_runs import losses, tiny_recipe

from elmox import Elmo, ElmoEmbedding
from elmox.kernels.availability import why_not_triton
from elmox.kernels.lstm.dispatch import lstm_rows
from elmox.model.init import random_checkpoint
from elmox.training.corpus.corpus import Corpus
from elmox.training.loop import train
from elmox.training.recipe import Recipe

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

SENTENCES = [[f"w{i * j % 101}" for j in range(1 + i % 23)] for i in range(60)] + [[]]
# Largest difference from float32 on a CPU, relative to the largest value.
TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 6e-2}


@pytest.fixture(scope="module")
def small() -> Elmo:
    return Elmo(random_checkpoint("small")).to("cpu")


def compare(ours: list[Any], expected: list[Any], tolerance: float) -> None:
    scale = max(float(np.abs(each).max()) for each in expected if each.size)
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale)


@needs_shared
@pytest.mark.parametrize("name", BILM_FIXTURES)
def test_golden_calls(name: str) -> None:
    golden = golden_calls(name)
    elmo = Elmo.from_pretrained(golden.weights, device="cuda").stateful()
    for call, expected in zip(golden.calls, golden.top_layers, strict=True):
        for ours, theirs in zip(elmo.encode_tokens(call, layers="top"), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_every_precision(small: Elmo, dtype: str) -> None:
    expected = small.encode_tokens(SENTENCES, layers="all")
    elmo = Elmo(small.checkpoint()).to("cuda", dtype)
    compare(elmo.encode_tokens(SENTENCES, layers="all"), expected, TOLERANCE[dtype])
    tensors = elmo.encode_tokens(SENTENCES, convert_to_tensor=True)
    assert tensors[0].device.type == "cuda"
    assert tensors[0].dtype == elmo.dtype


def test_batch_and_order_change_nothing(small: Elmo) -> None:
    elmo = Elmo(small.checkpoint()).to("cuda")
    expected = elmo.encode_tokens(SENTENCES, layers="all")
    backwards = elmo.encode_tokens(SENTENCES[::-1], layers="all", batch_size=7)[::-1]
    compare(backwards, expected, 1e-4)


def test_exhausted_memory_halves_the_batch(small: Elmo) -> None:
    elmo = Elmo(small.checkpoint()).to("cuda")
    sentences = [[f"w{j % 97}" for j in range(200)] for _ in range(400)]
    expected = elmo.encode_tokens(sentences[:1], layers="all")[0]
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    # Room for the weights and some hundred megabytes: far from all 80,000 tokens at once.
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 300e6) / total)
    try:
        for rows in (400, 3):
            vectors = elmo.encode_tokens(sentences[:rows], layers="all", batch_tokens=10**6)
            compare([vectors[0], vectors[-1]], [expected, expected], 1e-4)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def test_embedding_trains(small: Elmo) -> None:
    embed = ElmoEmbedding(Elmo(small.checkpoint()).to("cuda"), num_mixes=2, trainable=True)
    frozen = ElmoEmbedding(Elmo(small.checkpoint()).to("cuda"), num_mixes=2)
    out = embed(SENTENCES[:5])
    torch.testing.assert_close(out.mixes, frozen(SENTENCES[:5]).mixes, rtol=0, atol=1e-4)
    out.mixes.square().sum().backward()
    assert all(p.grad is not None for p in embed.parameters())


def test_a_moved_model_forgets_nothing(small: Elmo, tmp_path: Path) -> None:
    elmo = Elmo(small.checkpoint())
    expected = elmo.encode_tokens(SENTENCES)
    compare(elmo.encode_tokens(SENTENCES, device="cuda"), expected, 1e-4)
    compare(elmo.encode_tokens(SENTENCES, device="cpu"), expected, 1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-3), ("bfloat16", 0.2)])
def test_the_language_model_says_the_same(tmp_path: Path, dtype: str, tolerance: float) -> None:
    lm = tiny_lm(tmp_path)
    here, there = lm.elmo(), lm.elmo().to("cuda", dtype)
    sentences = [["The", "cat", "sat", "."], ["the", "dog"], []]
    for a, b in zip(there.score(sentences), here.score(sentences), strict=True):
        np.testing.assert_allclose(a.forward, b.forward, rtol=0, atol=tolerance)
        assert a.backward is not None
        assert b.backward is not None
        np.testing.assert_allclose(a.backward, b.backward, rtol=0, atol=tolerance)
    perplexity = here.evaluate(sentences).perplexity
    assert there.evaluate(sentences).perplexity == pytest.approx(perplexity, rel=tolerance)
    assert there.language_model.softmax.num_words == 11
    likely = dict(here.predict(sentences[0], 1, 99))
    for word, probability in there.predict(sentences[0], 1, 99):
        assert probability == pytest.approx(likely[word], abs=tolerance)


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-3), ("bfloat16", 3e-2)])
def test_training_follows_the_cpu(tmp_path: Path, precision: str, tolerance: float) -> None:
    """Full softmax, for candidates are drawn otherwise on a GPU; dropout is drawn alike."""
    corpus = small_corpus(tmp_path)
    settings: dict[str, Any] = {"max_steps": 20, "reset": 0.1}
    exact = tiny_recipe(corpus, softmax={"loss": "full"}, train=settings)
    low = tiny_recipe(corpus, softmax={"loss": "full"}, train={**settings, "precision": precision})
    here = train(exact, tmp_path / "cpu", device="cpu")
    there = train(low, tmp_path / "cuda", device="cuda")
    np.testing.assert_allclose(
        losses(tmp_path / "cuda", "loss"), losses(tmp_path / "cpu", "loss"), rtol=tolerance
    )
    assert there.perplexity == pytest.approx(here.perplexity, rel=10 * tolerance)


def fused_recipe(corpus: Corpus, max_steps: int, loss: str = "sampled") -> Recipe:
    """One whose layers the fused kernels take."""
    model = {
        "preset": "small",
        "lstm": {"cell_dim": 64, "projection_dim": 16},
        "char_cnn": {"filters": [[1, 8], [2, 8], [3, 16]], "num_highways": 1},
    }
    train = {"precision": "bfloat16", "dropout": 0.1, "reset": 0.02, "max_steps": max_steps}
    return tiny_recipe(corpus, model=model, train=train, softmax={"loss": loss})


def pointwise_recipe(corpus: Corpus, max_steps: int) -> Recipe:
    """One in float32, whose layers the point-wise kernels take."""
    return tiny_recipe(corpus, train={"max_steps": max_steps})


@pytest.mark.parametrize("recipe", [pointwise_recipe, fused_recipe])
def test_training_resumes_to_the_last_bit(tmp_path: Path, recipe: Any) -> None:
    """And is repeatable: nothing that runs adds numbers up in an order of chance."""
    corpus = small_corpus(tmp_path)
    short, whole = (recipe(corpus, max_steps=steps) for steps in (20, 40))
    train(whole, tmp_path / "whole", device="cuda")
    train(short, tmp_path / "parts", device="cuda")
    train(whole, tmp_path / "parts", resume=True, device="cuda")
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")


@pytest.mark.parametrize("loss", ["sampled", "full"])
def test_training_with_kernels_follows_the_plain_curve(
    tmp_path: Path, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = small_corpus(tmp_path)
    recipe = fused_recipe(corpus, max_steps=60, loss=loss)
    for kernels in ("", "pointwise", "torch"):
        monkeypatch.setenv("ELMOX_KERNELS", kernels)
        train(recipe, tmp_path / f"run{kernels}", device="cuda")
    name = "sampled_loss" if loss == "sampled" else "loss"
    plain = losses(tmp_path / "runtorch", name)
    assert plain[-1] < plain[0]
    for kernels in ("", "pointwise"):
        fast = losses(tmp_path / f"run{kernels}", name)
        np.testing.assert_allclose(fast, plain, rtol=3e-2)


def test_reading_by_fused_kernels(small: Elmo, monkeypatch: pytest.MonkeyPatch) -> None:
    elmo = Elmo(small.checkpoint()).to("cuda", "bfloat16")
    fused = elmo.encode_tokens(SENTENCES, layers="all")
    monkeypatch.setenv("ELMOX_KERNELS", "torch")
    plain = Elmo(small.checkpoint()).to("cuda", "bfloat16").encode_tokens(SENTENCES, layers="all")
    compare(fused, plain, TOLERANCE["bfloat16"])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 6e-2)])
@pytest.mark.parametrize("shape", [(2, 5, 3, 4, 7), (1, 8, 130, 32, 1030), (2, 3, 1, 64, 2048)])
@pytest.mark.parametrize("clips", [(0.4, 0.3), (None, None)])
def test_kernels_are_the_plain_step(
    shape: tuple[int, ...],
    clips: tuple[float | None, float | None],
    dtype: torch.dtype,
    tolerance: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Triton's and torch's point-wise half, forward and every gradient."""
    directions, steps, rows, dim, cells = shape
    assert why_not_triton(torch.zeros(1, device="cuda")) is None
    generator = torch.Generator("cuda").manual_seed(0)

    def draw(*size: int, scale: float = 1.0, like: torch.dtype = dtype) -> torch.Tensor:
        return (scale * torch.randn(*size, generator=generator, device="cuda")).to(like)

    arguments = [
        draw(directions, steps, rows, dim),
        draw(directions, rows, dim, scale=0.2),
        draw(directions, rows, cells, scale=0.2, like=torch.float32),
        draw(directions, 4 * cells, dim, scale=dim**-0.5),
        draw(directions, 4 * cells, dim, scale=dim**-0.5),
        draw(directions, 4 * cells, scale=0.1),
        draw(directions, dim, cells, scale=cells**-0.5),
    ]
    upstream = [draw(directions, steps, rows, dim), draw(directions, rows, dim)]
    results = []
    for kernels in ("torch", "pointwise"):
        monkeypatch.setenv("ELMOX_KERNELS", kernels)
        leaves = [argument.clone().requires_grad_() for argument in arguments]
        given: list[Any] = [*leaves, *clips]
        outputs = lstm_rows(*given)
        torch.autograd.backward(outputs[:2], upstream)
        results.append([*outputs, *(leaf.grad for leaf in leaves)])
    for plain, fast in zip(*results, strict=True):
        assert plain is not None
        assert fast is not None
        error = (fast - plain).norm() / plain.norm()
        assert error.item() < tolerance
