"""Fine-tune a biLM on the text of a domain (Peters et al. 2018, Table 7).

A model with a softmax keeps it and its vocabulary, so that perplexities before and after can be
compared. A model without one, or one that is to predict the domain's words, gets a new softmax.
Rows of words that are in both vocabularies are carried over. The new softmax is trained first, with
the body frozen, so that its random errors at the beginning do not damage the body.

The starting point is one of the candidates for the result: the result is never worse on held-out
text than the model that fine-tuning started from.

    out/
      finetune.json  the arguments
      corpus/        the prepared text
      start/         the model with a softmax for that text
      softmax/       the run that trains a new softmax      (if there is a new one)
      run/           the run that trains everything
      model/         the result
      report.json    perplexity before and after
"""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from elmox.errors import Argument, ArgumentError, ElmoxError, RunExists
from elmox.inference.device import resolve_device
from elmox.io.files import atomic_write, is_vacant, read_json, to_json, writing
from elmox.io.locks import alone_in
from elmox.io.progress import Log
from elmox.io.temporary import clear_leftovers, scratch_directory
from elmox.io.tensors import digest
from elmox.model.checkpoint import Checkpoint, Softmax, StoredSoftmax
from elmox.pretrained.ai2 import write_ai2
from elmox.pretrained.load import load_checkpoint
from elmox.pretrained.native import write_directory
from elmox.training.corpus.corpus import Corpus, open_corpus
from elmox.training.corpus.prepare import PrepareOptions, prepare_corpus
from elmox.training.corpus.sources import text_digests
from elmox.training.distributed import Processes, num_processes
from elmox.training.loop import Outcome, train
from elmox.training.recipe import Recipe, recipe_from_dict
from elmox.training.start import fresh_softmax, starting_point
from elmox.training.trainer import Trainer

SMALL_DOMAIN = 200_000  # words; with fewer, a biLM memorizes the text within a few epochs


@dataclass(frozen=True)
class FinetuneOptions:
    """Settings of fine-tuning.

    Attributes:
        new_vocab: predict the words of the domain instead of the model's vocabulary.
        epochs: number of passes over the text that train everything.
        softmax_epochs: number of passes before that, which train only a new softmax.
        lr: peak learning rate of AdamW for everything.
        softmax_lr: peak learning rate for a new softmax alone.
        rows, steps: shape of a step, as in `TrainRecipe`; a short text gets fewer rows.
        seed: of all random numbers.
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
                value = getattr(self, name)
                raise ArgumentError("{} is {}, expected more than 0", Argument(name), value)


@dataclass(frozen=True)
class FinetuneReport:
    """The result of fine-tuning.

    Attributes:
        before: held-out perplexity (full softmax) of the starting point; None if no text is held
            out. With a new softmax, the starting point is the old body with the trained softmax.
        after: the best held-out perplexity of the fine-tuned model.
        num_tokens: number of words in the training text.
        unknown_share: share of them that are not in the vocabulary.
        new_softmax: whether a new softmax was trained first.
        num_carried: number of its rows that were carried over from the old softmax.
        model: directory of the result.
        improved: whether `after` is below `before`; otherwise `model` is the starting point.
        signal: number of the signal that interrupted fine-tuning, if any.
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
        model: the model to start from.
        texts: text files of the domain.
        out: directory for everything that is written.
        prepare: how to read the text; its vocabulary is set here.
        options: how to train.
        hdf5: file to which the result is also written in AI2's format.
        resume: continue where a call with the same arguments was interrupted.
        device: cpu or cuda; by default a GPU if there is one.
        log: called with each line of progress.
        show_progress_bar: show a bar on stderr.
    """
    if num_processes() > 1:
        raise ElmoxError(
            "fine-tuning runs in one process: to use several, prepare the text with the model's "
            "vocabulary and train with the recipe setting model.start"
        )
    if hdf5 is not None and not resume:
        _refuse_files(hdf5)
    with ExitStack() as held:
        arguments = _arguments(model, texts, prepare, options)
        _enter(out, arguments, text_digests(texts), resume, held)
        corpus = _corpus(model, texts, out, prepare, options)
        _warn(corpus, log)
        recipe, report = _start(model, corpus, out, options, hdf5)
        del model  # it is read from `start` again: two copies would take twice the memory

        def run(recipe: Recipe, folder: Path) -> Outcome:
            return train(
                recipe,
                folder,
                resume=resume,
                device=device,
                verify=False,  # `_corpus` has done that
                log=log,
                show_progress_bar=show_progress_bar,
            )

        best_or_last = "last" if corpus.valid is None else "best"
        if report.new_softmax:
            log(f"training a new softmax first; {report.num_carried} of its rows are carried over")
            outcome = run(_softmax_only(recipe, options), out / "softmax")
            report = replace(report, before=outcome.best_perplexity, signal=outcome.signal)
            start = str(out / "softmax" / best_or_last)
            recipe = replace(recipe, model=replace(recipe.model, start=start))
        elif corpus.valid is not None:
            report = replace(report, before=_held_out(recipe, corpus, device))
            log(f"held-out perplexity before: {report.before:.2f}")
        if report.signal is not None:
            return report
        outcome = run(recipe, out / "run")
        report = replace(report, after=outcome.best_perplexity, signal=outcome.signal)
        if report.signal is not None:
            return report
        result = out / "run" / best_or_last
        if report.before is not None and report.after is not None:
            report = replace(report, improved=report.after < report.before)
            if not report.improved:
                result = Path(recipe.model.start)
        _finish(report, result, out, hdf5, force=resume)
        return report


def carry_over(old: Softmax | StoredSoftmax, new: Softmax) -> tuple[Softmax, int]:
    """Copy the rows of words that are in both vocabularies.

    Returns:
        The new softmax with these rows, and their number.
    """
    if "weight" not in old.tensors or "weight" not in new.tensors:
        return new, 0  # rows of an adaptive softmax are meaningless outside their clusters
    old_ids = {word: id for id, word in enumerate(old.vocab)}
    pairs = [(id, old_ids[word]) for id, word in enumerate(new.vocab) if word in old_ids]
    target = torch.tensor([new_id for new_id, _ in pairs], dtype=torch.int64)
    source = torch.tensor([old_id for _, old_id in pairs], dtype=torch.int64)
    tensors = {
        name: new.tensors[name].index_copy(0, target, old.tensors[name][source])
        for name in ("weight", "bias")
    }
    return replace(new, tensors=tensors), len(pairs)


def _arguments(
    model: Checkpoint, texts: Sequence[str], prepare: PrepareOptions, options: FinetuneOptions
) -> dict[str, Any]:
    """Return everything that decides what will be learned, as JSON values."""
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


def _enter(
    out: Path,
    arguments: Mapping[str, Any],
    content: dict[str, str],
    resume: bool,
    held: ExitStack,
) -> None:
    """Create the directory, or check that it was started with the same arguments and texts.

    A text is needed only until it is prepared, so one that is gone since then is no error. Until
    `held` is closed, other processes are kept out.
    """
    path = out / "finetune.json"
    clear_leftovers(path)
    if not path.exists() and not is_vacant(out):
        raise ElmoxError(f"{out} exists already: choose another directory")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        held.enter_context(alone_in(out, "fine-tuning in"))
    if (out / "corpus").exists():  # until the text is prepared, nothing was started
        if not resume:
            raise RunExists(out)
        stored = read_json(path)
        changed = [name for name in arguments if stored.get(name) != arguments[name]]
        if changed:
            raise ElmoxError(
                f"{out} was started with other values of {', '.join(changed)}: continue with "
                "those, or choose another directory"
            )
        before = stored.get("content", {})
        for text, digest in content.items():
            if before.get(text, digest) != digest:
                raise ElmoxError(
                    f"{text} has changed since {out} was started: restore it, or choose another "
                    "directory"
                )
        content = {**content, **before}
    with atomic_write(path) as temporary:
        temporary.write_bytes(to_json({**arguments, "content": content}))


def _corpus(
    model: Checkpoint,
    texts: Sequence[str],
    out: Path,
    prepare: PrepareOptions,
    options: FinetuneOptions,
) -> Corpus:
    """Prepare the text once, with the model's tokenizer and, if it has one, its vocabulary."""
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
        log(
            "no text is held out, so perplexity before and after is not measured, and the result "
            "may be worse than the model it started from"
        )
    if corpus.info.train.num_tokens < SMALL_DOMAIN:
        watch = " and watch the held-out perplexity" if corpus.valid else ""
        log(
            f"warning: {corpus.info.train.num_tokens:,} words are so few that the model soon "
            f"memorizes them: keep to one epoch{watch}"
        )


def _start(
    model: Checkpoint, corpus: Corpus, out: Path, options: FinetuneOptions, hdf5: Path | None
) -> tuple[Recipe, FinetuneReport]:
    """Write the model with a softmax for the corpus.

    A new softmax is always a full one, whatever the old one is.

    Returns:
        The recipe that trains it, and a report without perplexities.
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
    # A short text must still give a few hundred updates per epoch.
    rows = max(4, min(options.rows, corpus.train.num_positions // (options.steps * 200)))
    steps = max(1, corpus.train.num_positions // (rows * options.steps))  # per epoch
    quarter = max(1, steps // 4)
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
        "report": {
            "eval_every": quarter,
            "save_every": quarter,
            "log_every": max(1, quarter // 5),
        },
    }
    return recipe_from_dict(values, "the fine-tuning recipe")


def _softmax_only(recipe: Recipe, options: FinetuneOptions) -> Recipe:
    return replace(
        recipe,
        train=replace(recipe.train, epochs=options.softmax_epochs, freeze="body"),
        optim=replace(recipe.optim, lr=options.softmax_lr),
    )


def _held_out(recipe: Recipe, corpus: Corpus, device: str | None) -> float:
    """Return the perplexity before the first step; its trainer is released on return."""
    alone = Processes(0, 1, resolve_device(device))
    trainer = Trainer(recipe, corpus, starting_point(recipe, corpus), alone)
    return trainer.held_out(recipe.report.eval_rows).perplexity


def _refuse_files(hdf5: Path) -> None:
    """Refuse to overwrite the file, or one of those that `write_ai2` writes next to it."""
    siblings = (f"{hdf5.stem}_{end}" for end in ("options.json", "softmax.hdf5", "vocab.txt"))
    for path in (hdf5, *map(hdf5.with_name, siblings)):
        if path.exists() or path.is_symlink():
            raise ArgumentError(
                "{} exists already: choose another name for {}", path, Argument("hdf5")
            )


def _rehearse_ai2(start: Checkpoint, hdf5: Path, out: Path) -> None:
    """Refuse a model that AI2's format cannot hold before it is trained for hours."""
    with scratch_directory("hdf5", out) as folder:
        try:
            write_ai2(start, folder / hdf5.name)
        except ElmoxError as error:
            raise ArgumentError(
                "leave out {}, and convert the result afterwards: {}", Argument("hdf5"), error
            ) from error


def _finish(
    report: FinetuneReport, source: Path, out: Path, hdf5: Path | None, force: bool
) -> None:
    """Write the model at `source` as the result, to `hdf5` as well if given, and the report."""
    best = load_checkpoint(source)
    write_directory(best, out / "model", force=True)
    if hdf5 is not None:
        write_ai2(best, hdf5, force)
    with atomic_write(out / "report.json") as path:
        path.write_bytes(to_json(asdict(report)))
