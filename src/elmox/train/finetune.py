"""Go on training a finished biLM on the text of a domain (Peters et al. 2018, Table 7).

A model with a softmax keeps it and its vocabulary, so that perplexities before and after can be
compared. One without, or one that is to predict the domain's own words, gets a new softmax: rows of
words that both vocabularies have are carried over, and the softmax is trained first, with the body
frozen, so that its first random errors do not spoil the body.

    out/
      corpus/        the text
      start/         the model with a softmax for that text
      softmax/       the run that trains a new softmax      (where there is a new one)
      run/           the run that trains everything
      model/         the result
      report.json    perplexity before and after
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from elmox.errors import ElmoxError
from elmox.files import atomic_write, refuse_existing, to_json
from elmox.hub import load_checkpoint, write_directory
from elmox.model.checkpoint import Checkpoint, Softmax, StoredSoftmax
from elmox.train.corpus import Corpus, open_corpus
from elmox.train.distributed import Processes, checked_device
from elmox.train.log import Say
from elmox.train.loop import Outcome, train
from elmox.train.prepare import PrepareOptions, prepare_corpus
from elmox.train.recipe import Recipe, recipe_from_dict
from elmox.train.start import fresh_softmax, starting_point
from elmox.train.trainer import Trainer

SMALL_DOMAIN = 200_000  # words; with fewer a biLM learns the text by heart within a few epochs


@dataclass(frozen=True)
class FinetuneOptions:
    """How to go on.

    Attributes:
        new_vocab: predict the domain's own words rather than those the model knows.
        epochs: times the text is read with everything in training.
        softmax_epochs: times it is read before with only a new softmax in training.
        lr: peak learning rate of AdamW for everything.
        softmax_lr: the same for a new softmax alone.
        rows, steps: the shape of a step; rows are fewer where the text is short.
        seed: of everything that is drawn.
    """

    new_vocab: bool = False
    epochs: float = 1
    softmax_epochs: float = 3
    lr: float = 5e-4
    softmax_lr: float = 4e-3
    rows: int = 64
    steps: int = 20
    seed: int = 0


@dataclass(frozen=True)
class FinetuneReport:
    """What came of it.

    Attributes:
        before, after: held-out full-softmax perplexity. With a new softmax, `before` is what the
            frozen body reaches with it.
        num_tokens: words of the training text.
        unknown_share: the part of them that the vocabulary lacks.
        new_softmax: whether the softmax had to be trained first.
        num_carried: its rows that were carried over from the old one.
        model: the result.
        signal: what interrupted it, if anything did.
    """

    before: float | None
    after: float | None
    num_tokens: int
    unknown_share: float
    new_softmax: bool
    num_carried: int
    model: str
    signal: int | None = None


def finetune(
    model: Checkpoint,
    texts: Sequence[str],
    out: Path,
    *,
    prepare: PrepareOptions,
    options: FinetuneOptions,
    resume: bool = False,
    device: str | None = None,
    say: Say = lambda message: None,
    show_progress_bar: bool = False,
) -> FinetuneReport:
    """Fine-tune a model.

    Args:
        model: where to start.
        texts: files of the domain.
        out: the directory of everything that is made.
        prepare: how to read the text; its vocabulary is decided here.
        options: how to train.
        resume: go on where an earlier call with the same arguments was interrupted.
        device: cpu, cuda; a GPU if there is one by default.
        say: told how it goes.
        show_progress_bar: on stderr.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ElmoxError(
            "elmox finetune runs in one process: on several, prepare the text with the model's "
            "vocabulary and use elmox train with model.start"
        )
    if not resume:
        refuse_existing(out, force=False)
    corpus = _corpus(model, texts, out, prepare, options)
    if corpus.info.train.num_tokens < SMALL_DOMAIN:
        say(
            f"warning: {corpus.info.train.num_tokens:,} words are so few that the model will soon "
            "know them by heart: keep to one epoch and watch the held-out perplexity"
        )
    new_softmax = model.softmax is None or model.softmax.vocab != corpus.vocab()
    num_carried = _write_start(model, corpus, out / "start", options)
    whole = _recipe(corpus, out / "start", options)

    def go(recipe: Recipe, folder: Path) -> Outcome:
        return train(
            recipe,
            folder,
            resume=resume,
            device=device,
            say=say,
            show_progress_bar=show_progress_bar,
        )

    found = FinetuneReport(
        before=None,
        after=None,
        num_tokens=corpus.info.train.num_tokens,
        unknown_share=corpus.info.train.unknown_share,
        new_softmax=new_softmax,
        num_carried=num_carried,
        model=str(out / "model"),
    )
    if new_softmax:
        say(f"training a new softmax first; {num_carried} of its rows are carried over")
        outcome = go(_softmax_only(whole, options), out / "softmax")
        found = replace(found, before=outcome.best_perplexity, signal=outcome.signal)
        start = out / "softmax" / ("best" if corpus.valid else "last")
        whole = replace(whole, model=replace(whole.model, start=str(start)))
    elif corpus.valid is not None:
        alone = Processes(0, 1, checked_device(device))
        trainer = Trainer(whole, corpus, starting_point(whole, corpus), alone)
        found = replace(found, before=trainer.held_out(whole.report.eval_rows).perplexity)
        say(f"held-out perplexity before: {found.before:.2f}")
    if found.signal is not None:
        return found
    outcome = go(whole, out / "run")
    found = replace(found, after=outcome.best_perplexity, signal=outcome.signal)
    if found.signal is None:
        best = load_checkpoint(out / "run" / ("best" if corpus.valid else "last"))
        write_directory(best, out / "model", force=True)
        with atomic_write(out / "report.json") as path:
            path.write_bytes(to_json(asdict(found)))
    return found


def carry_over(old: Softmax | StoredSoftmax, new: Softmax) -> tuple[Softmax, int]:
    """Copy the rows of words that both vocabularies have; returns how many there were."""
    if "weight" not in old.tensors or "weight" not in new.tensors:
        return new, 0  # an adaptive softmax's rows mean nothing outside their clusters
    places = {word: place for place, word in enumerate(old.vocab)}
    pairs = [(i, places[word]) for i, word in enumerate(new.vocab) if word in places]
    mine = torch.tensor([i for i, _ in pairs], dtype=torch.int64)
    theirs = torch.tensor([j for _, j in pairs], dtype=torch.int64)
    tensors = {
        name: new.tensors[name].index_copy(0, mine, old.tensors[name][theirs])
        for name in ("weight", "bias")
    }
    return replace(new, tensors=tensors), len(pairs)


def _corpus(
    model: Checkpoint,
    texts: Sequence[str],
    out: Path,
    prepare: PrepareOptions,
    options: FinetuneOptions,
) -> Corpus:
    """The text, prepared once, by the model's tokeniser and, if it has one, vocabulary."""
    folder = out / "corpus"
    if not (folder / "corpus.json").exists():
        prepare = replace(prepare, tokenizer=prepare.tokenizer or model.config.text.tokenizer)
        if model.softmax is not None and not options.new_vocab:
            out.mkdir(parents=True, exist_ok=True)
            vocab = out / "vocab.txt"
            with atomic_write(vocab) as path:
                path.write_text("".join(f"{w}\n" for w in model.softmax.vocab), encoding="utf-8")
            prepare = replace(prepare, vocab=vocab, vocab_size=None, min_count=None)
        prepare_corpus(texts, folder, prepare)
    return open_corpus(folder)


def _write_start(model: Checkpoint, corpus: Corpus, folder: Path, options: FinetuneOptions) -> int:
    """Write the model with a softmax for the corpus; returns how many rows were carried over."""
    recipe = _recipe(corpus, folder, options)
    start, num_carried = model, 0
    if model.softmax is None:
        start = replace(model, softmax=fresh_softmax(recipe, corpus, model))
    elif model.softmax.vocab != corpus.vocab():
        fresh = fresh_softmax(recipe, corpus, model)
        softmax, num_carried = carry_over(model.softmax, fresh)
        start = replace(model, softmax=softmax)
    write_directory(start, folder, force=True)
    return num_carried


def _recipe(corpus: Corpus, start: Path, options: FinetuneOptions) -> Recipe:
    # A short text must still give a few hundred updates an epoch.
    rows = max(4, min(options.rows, corpus.train.num_positions // (options.steps * 200)))
    steps = max(1, corpus.train.num_positions // (rows * options.steps))  # an epoch's
    often = max(1, steps // 4)
    values = {
        "data": {"dir": str(corpus.path)},
        "model": {"start": str(start)},
        "softmax": {"samples": 8192, "bias": "unigram"},
        "train": {
            "rows": rows,
            "steps": options.steps,
            "reset": 0.02,
            "epochs": options.epochs,
            "seed": options.seed,
        },
        "optim": {
            "name": "adamw",
            "lr": options.lr,
            "warmup": min(100, steps // 10),
            "schedule": "cosine",
            "clip_norm": 1.0,
            "sum_over_steps": False,
        },
        "report": {"eval_every": often, "save_every": often, "log_every": max(1, often // 5)},
    }
    return recipe_from_dict(values, "the fine-tuning recipe")


def _softmax_only(recipe: Recipe, options: FinetuneOptions) -> Recipe:
    return replace(
        recipe,
        train=replace(recipe.train, epochs=options.softmax_epochs, freeze="body"),
        optim=replace(recipe.optim, lr=options.softmax_lr),
    )
