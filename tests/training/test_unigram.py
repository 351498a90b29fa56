"""The unigram baseline against counts by hand, and the tiny recipe against the baseline."""

import math
from collections import Counter
from pathlib import Path

import pytest
from corpora import documents, small_corpus

from elmox.errors import ElmoxError
from elmox.training.corpus.corpus import open_corpus
from elmox.training.corpus.prepare import PrepareOptions, prepare_corpus
from elmox.training.loop import train
from elmox.training.recipe import read_recipe
from elmox.training.unigram import unigram_perplexity


def test_counts(tmp_path: Path) -> None:
    corpus = small_corpus(tmp_path)
    vocab = set(corpus.vocab())

    def targets(held_out: bool) -> list[str]:
        chosen = [d for i, d in enumerate(documents()[:12]) if (i % 4 == 3) == held_out]
        words = [[*sentence, "</S>"] for document in chosen for sentence in document]
        return [w if w in vocab else "<UNK>" for sentence in words for w in sentence]

    counts = Counter(targets(held_out=False))
    total = sum(counts.values()) + corpus.vocab_size
    held_out = targets(held_out=True)
    nats = -sum(math.log((counts[w] + 1) / total) for w in held_out) / len(held_out)
    assert unigram_perplexity(corpus) == pytest.approx(math.exp(nats))


def test_without_held_out_text(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("a b c\n", encoding="utf-8")
    prepare_corpus(
        [str(tmp_path / "t.txt")], tmp_path / "c", PrepareOptions(tokenized=True), num_workers=1
    )
    with pytest.raises(ElmoxError, match="has no held-out text"):
        unigram_perplexity(open_corpus(tmp_path / "c"))


def test_the_tiny_recipe_is_better(tmp_path: Path) -> None:
    """A part of `examples/train_tiny.py`, which reaches far less than the 60%."""
    corpus = small_corpus(tmp_path, num_documents=len(documents()), hold_out=10, vocab_size=5000)
    settings = [f'data.dir="{corpus.path}"', "train.max_steps=140", "report.eval_every=0"]
    outcome = train(read_recipe("tiny", settings), tmp_path / "run", device="cpu")
    assert outcome.perplexity is not None
    assert outcome.perplexity < 0.6 * unigram_perplexity(corpus)
