"""Go on training a finished biLM on the text of a domain (Peters et al. 2018, Table 7).

A model with a softmax keeps it and its vocabulary, so that perplexities before and after can be
compared. One without, or one that is to predict the domain's own words, gets a new softmax: rows of
words that both vocabularies have are carried over, and the softmax is trained first, with the body
frozen, so that its first random errors do not spoil the body.

    out/
      finetune.json  what was asked for
      corpus/        the text
      start/         the model with a softmax for that text
      softmax/       the run that trains a new softmax      (where there is a new one)
      run/           the run that trains everything
      model/         the result
      report.json    perplexity before and after
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from elmox.errors import ElmoxError
from elmox.inference.device import resolve_device
from elmox.io.files import atomic_write, is_vacant, read_json, to_json, writing
from elmox.io.locks import alone_in
from elmox.io.progress import Log
from elmox.io.temporary import clear_leftovers, scratch_directory
from elmox.io.tensors import digest
from elmox.model.checkpoint import Checkpoint, Softmax, StoredSoftmax
from elmox.pretrained.ai2 import write_ai2
from elmox.pretrained.load import load_checkpoint, write_directory
from elmox.training.corpus.corpus import Corpus, open_corpus
from elmox.training.corpus.prepare import PrepareOptions, prepare_corpus
from elmox.training.distributed import Processes
from elmox.training.loop import Outcome, train
from elmox.training.recipe import Recipe, recipe_from_dict
from elmox.training.start import fresh_softmax, starting_point
from elmox.training.trainer import Trainer

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

    def __post_init__(self) -> None:
        for name in ("epochs", "softmax_epochs", "lr", "softmax_lr", "rows", "steps"):
            if not 0 < getattr(self, name) < math.inf:
                raise ElmoxError(f"{name} is {getattr(self, name)}, expected more than 0")


@dataclass(frozen=True)
class FinetuneReport:
    """What came of it.

    Attributes:
        before, after: held-out full-softmax perplexity; None where no text is held out. With a new
            softmax, `before` is what the frozen body reaches with it.
        num_tokens: words of the training text.
        unknown_share: the part of them that the vocabulary lacks.
        new_softmax: whether the softmax had to be trained first.
        num_carried: its rows that were carried over from the old one.
        model: the result.
        improved: whether the held-out perplexity fell; otherwise `model` is what training started
            from.
        signal: what interrupted it, if anything did.
    """

    before: float | None
    after: float | None
    num_tokens: int
    unknown_share: float
    new_softmax: bool
    num_carried: int
    model: str
    improved: bool = True
    signal: int | None = None


def finetune(
    model: Checkpoint,
    texts: Sequence[str],
    out: Path,
    *,
    prepare: PrepareOptions,
    options: FinetuneOptions,
    hdf5: Path | None = None,
    resume: bool = False,
    device: str | None = None,
    log: Log = lambda message: None,
    show_progress_bar: bool = False,
) -> FinetuneReport:
    """Fine-tune a model.

    Args:
        model: where to start.
        texts: files of the domain.
        out: the directory of everything that is made.
        prepare: how to read the text; its vocabulary is decided here.
        options: how to train.
        hdf5: a file to write the result to in AI2's format as well.
        resume: go on where an earlier call with the same arguments was interrupted.
        device: cpu, cuda; a GPU if there is one by default.
        log: told how it goes.
        show_progress_bar: on stderr.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ElmoxError(
            "elmox finetune runs in one process: on several, prepare the text with the model's "
            "vocabulary and use elmox train with model.start"
        )
    if hdf5 is not None and not resume:
        _refuse_files(hdf5)
    with ExitStack() as held:
        _enter(out, _asked(model, texts, prepare, options), resume, held)
        corpus = _corpus(model, texts, out, prepare, options)
        _warn(corpus, log)
        whole, found = _start(model, corpus, out, options, hdf5)
        del model  # it is read from `start` again: two copies would be one too many

        def go(recipe: Recipe, folder: Path) -> Outcome:
            bar = show_progress_bar
            return train(
                recipe,
                folder,
                resume=resume,
                device=device,
                verify=False,  # it just was
                log=log,
                show_progress_bar=bar,
            )

        if found.new_softmax:
            log(f"training a new softmax first; {found.num_carried} of its rows are carried over")
            outcome = go(_softmax_only(whole, options), out / "softmax")
            found = replace(found, before=outcome.best_perplexity, signal=outcome.signal)
            softmax = out / "softmax" / ("best" if corpus.valid else "last")
            whole = replace(whole, model=replace(whole.model, start=str(softmax)))
        elif corpus.valid is not None:
            found = replace(found, before=_held_out(whole, corpus, device))
            log(f"held-out perplexity before: {found.before:.2f}")
        if found.signal is not None:
            return found
        outcome = go(whole, out / "run")
        found = replace(found, after=outcome.best_perplexity, signal=outcome.signal)
        if found.signal is None:
            best = out / "run" / ("best" if corpus.valid else "last")
            if found.before is not None and found.after is not None and found.after > found.before:
                best = Path(whole.model.start)
                found = replace(found, improved=False)
            _finish(found, best, out, hdf5, force=resume)
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


def _asked(
    model: Checkpoint, texts: Sequence[str], prepare: PrepareOptions, options: FinetuneOptions
) -> dict[str, Any]:
    """All that decides what will be learned, as JSON has it."""
    softmax = model.softmax
    words = "" if softmax is None else "\n".join(softmax.vocab)
    values = {
        "texts": list(texts),
        "model": digest(model.tensors),
        "config": model.config.to_dict(),
        "softmax": None if softmax is None else digest(softmax.tensors),
        "softmax_vocab": blake2b(words.encode(), digest_size=16).hexdigest(),
        **asdict(prepare),
        "vocab": None if prepare.vocab is None else str(prepare.vocab),
        **asdict(options),
    }
    plain: dict[str, Any] = json.loads(to_json(values))
    return plain


def _enter(out: Path, asked: Mapping[str, Any], resume: bool, held: ExitStack) -> None:
    """Make the directory, or see that what was begun in it is what is asked for now.

    Until `held` is closed, other processes are kept out.
    """
    path = out / "finetune.json"
    clear_leftovers(path)
    if not path.exists() and not is_vacant(out):
        raise ElmoxError(f"{out} exists already: choose another directory")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        held.enter_context(alone_in(out, "fine-tuning in"))
    if (out / "corpus").exists():  # until the text is prepared, nothing was begun
        if not resume:
            raise ElmoxError(
                f"{out} exists already: go on with --resume, or choose another directory"
            )
        before = read_json(path)
        changed = [name for name in asked if before.get(name) != asked[name]]
        if changed:
            raise ElmoxError(
                f"{out} was begun with other values of {', '.join(changed)}: go on with those, or "
                "choose another directory"
            )
    with atomic_write(path) as temporary:
        temporary.write_bytes(to_json(asked))


def _corpus(
    model: Checkpoint,
    texts: Sequence[str],
    out: Path,
    prepare: PrepareOptions,
    options: FinetuneOptions,
) -> Corpus:
    """The text, prepared once, by the model's tokenizer and, if it has one, vocabulary."""
    folder = out / "corpus"
    if not (folder / "corpus.json").exists():
        prepare = replace(prepare, tokenizer=prepare.tokenizer or model.config.text.tokenizer)
        if model.softmax is not None and not options.new_vocab:
            vocab = out / "vocab.txt"
            with atomic_write(vocab) as path:
                path.write_text("".join(f"{w}\n" for w in model.softmax.vocab), encoding="utf-8")
            prepare = replace(prepare, vocab=vocab, vocab_size=None, min_count=None)
        prepare_corpus(texts, folder, prepare)
    return open_corpus(folder, verify=True)


def _warn(corpus: Corpus, log: Log) -> None:
    if corpus.valid is None:
        log("no text is held out, so the perplexity before and after will not be known")
    if corpus.info.train.num_tokens < SMALL_DOMAIN:
        watch = " and watch the held-out perplexity" if corpus.valid else ""
        log(
            f"warning: {corpus.info.train.num_tokens:,} words are so few that the model will soon "
            f"know them by heart: keep to one epoch{watch}"
        )


def _start(
    model: Checkpoint, corpus: Corpus, out: Path, options: FinetuneOptions, hdf5: Path | None
) -> tuple[Recipe, FinetuneReport]:
    """Write the model with a softmax for the corpus; returns how to train it, and a first report.

    A new softmax is always a full one, whatever the old one was.
    """
    old = model.softmax
    kept = old if old is not None and old.vocab == corpus.vocab() else None
    adaptive = kept is not None and "layer.head.weight" in kept.tensors
    recipe = _recipe(corpus, out / "start", options, "adaptive" if adaptive else "sampled")
    num_carried = 0
    if kept is None:
        fresh = fresh_softmax(recipe, corpus, model)
        fresh, num_carried = (fresh, 0) if old is None else carry_over(old, fresh)
        model = replace(model, softmax=fresh)
    if hdf5 is not None:
        _rehearse_ai2(model, hdf5, out)
    write_directory(model, out / "start", force=True)
    return recipe, FinetuneReport(
        before=None,
        after=None,
        num_tokens=corpus.info.train.num_tokens,
        unknown_share=corpus.info.train.unknown_share,
        new_softmax=kept is None,
        num_carried=num_carried,
        model=str(out / "model"),
    )


def _recipe(corpus: Corpus, start: Path, options: FinetuneOptions, loss: str) -> Recipe:
    # A short text must still give a few hundred updates an epoch.
    rows = max(4, min(options.rows, corpus.train.num_positions // (options.steps * 200)))
    steps = max(1, corpus.train.num_positions // (rows * options.steps))  # an epoch's
    often = max(1, steps // 4)
    values = {
        "data": {"dir": str(corpus.path)},
        "model": {"start": str(start)},
        "softmax": {"loss": loss, "samples": 8192, "bias": "unigram"},
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


def _held_out(recipe: Recipe, corpus: Corpus, device: str | None) -> float:
    """Perplexity before the first step. A function of its own, so that its trainer goes."""
    alone = Processes(0, 1, resolve_device(device))
    trainer = Trainer(recipe, corpus, starting_point(recipe, corpus), alone)
    return trainer.held_out(recipe.report.eval_rows).perplexity


def _refuse_files(hdf5: Path) -> None:
    """Nothing is overwritten: neither the file nor those that `write_ai2` puts beside it."""
    beside = (f"{hdf5.stem}_{end}" for end in ("options.json", "softmax.hdf5", "vocab.txt"))
    for path in (hdf5, *map(hdf5.with_name, beside)):
        if path.exists() or path.is_symlink():
            raise ElmoxError(f"{path} exists already: choose another name for --hdf5")


def _rehearse_ai2(start: Checkpoint, hdf5: Path, out: Path) -> None:
    """A model that AI2's format cannot hold is refused before it is trained for hours."""
    with scratch_directory("hdf5", out) as folder:
        try:
            write_ai2(start, folder / hdf5.name)
        except ElmoxError as error:
            raise ElmoxError(
                f"leave out --hdf5 and use elmox convert afterwards: {error}"
            ) from error


def _finish(found: FinetuneReport, source: Path, out: Path, hdf5: Path | None, force: bool) -> None:
    """Write the model at `source` as the result, in AI2's format too if asked, and the report."""
    best = load_checkpoint(source)
    write_directory(best, out / "model", force=True)
    if hdf5 is not None:
        write_ai2(best, hdf5, force)
    with atomic_write(out / "report.json") as path:
        path.write_bytes(to_json(asdict(found)))
