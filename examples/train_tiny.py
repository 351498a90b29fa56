"""From raw text to a trained biLM and its vectors, in about two minutes on a laptop.

    python examples/train_tiny.py

The text comes with Python: the language reference and the docstrings of the standard library. Every
tenth document is held out. The model is tiny, and its vectors are of use only for such text.
"""

import importlib
import inspect
import pkgutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

from elmox import Elmo, embed_file, open_vectors
from elmox.training.corpus.corpus import open_corpus
from elmox.training.corpus.prepare import PrepareOptions, prepare_corpus
from elmox.training.loop import train
from elmox.training.recipe import read_recipe
from elmox.training.unigram import unigram_perplexity

# Importing these opens windows, browsers or sockets, or prints.
EXCLUDED = {"antigravity", "idlelib", "lib2to3", "test", "this", "tkinter", "turtledemo", "turtle"}
SENTENCES = ["The function returns a list of strings.", "Raise an error if the file is missing."]


def main(texts: Iterable[str] | None = None, settings: Sequence[str] = ()) -> None:
    """Train in a temporary directory.

    Args:
        texts: documents to train on; Python's documentation by default.
        settings: changes to the recipe, such as `train.max_steps=2`.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = folder / "text.txt"
        text.write_text("\n\n".join(texts or documents()), encoding="utf-8")
        print(f"1. Prepare {text.stat().st_size / 1e6:.1f} MB of text (elmox prepare).")
        options = PrepareOptions(hold_out=10, vocab_size=10_000)
        info = prepare_corpus([str(text)], folder / "corpus", options)
        corpus = open_corpus(folder / "corpus")
        unigram = unigram_perplexity(corpus)
        print(f"   {info.train.num_tokens:,} tokens, {info.vocab_size:,} words to predict.")

        print("\n2. Train a tiny biLM (elmox train tiny).")
        recipe = read_recipe("tiny", [f'data.dir="{folder / "corpus"}"', *settings])
        started = time.monotonic()
        outcome = train(recipe, folder / "run", log=lambda message: print(f"   {message}"))
        print(f"   Finished in {time.monotonic() - started:.0f} s.")
        if outcome.signal is not None:
            sys.exit(128 + outcome.signal)

        best = outcome.best_perplexity
        assert best is not None  # a tenth of the documents is held out
        print(
            f"\n3. Held-out perplexity: {best:.1f}, which is {best / unigram:.0%} of the unigram "
            f"model's {unigram:.1f}."
        )

        elmo = Elmo.from_pretrained(folder / "run" / "best")
        print("\n4. Vectors that depend on the sentence (elmox embed).")
        for sentence, vectors in zip(SENTENCES, elmo.encode_tokens(SENTENCES), strict=True):
            print(f"   {vectors.shape!s:<10} {' '.join(elmo.tokenize(sentence))}")
        source, output = folder / "sentences.txt", folder / "vectors.hdf5"
        source.write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
        embed_file(elmo, str(source), output, dtype="float16")
        with open_vectors(output) as stored:
            print(f"   {output.name}: {len(stored)} entries, entry 1 is {stored[1].shape}")

        sentence = "The function ___ a list of strings."
        print(f"\n5. Words for the gap in {sentence!r} (elmox predict).")
        for prediction in elmo.predict(sentence, k=3):
            print(f"   {prediction.probability:.2f} {prediction.word}")


def documents() -> Iterator[str]:
    """Yield the language reference, then the docstrings of each module of the standard library."""
    from pydoc_data.topics import topics

    yield from (_paragraphs(topics[name]) for name in sorted(topics))
    names = sorted(set(sys.stdlib_module_names) - EXCLUDED)
    for name in names:
        for module in _modules(name):
            docstrings = list(dict.fromkeys(_docstrings(module)))
            if docstrings:
                yield "\n".join(map(_paragraphs, docstrings))


def _modules(name: str) -> Iterator[ModuleType]:
    """Yield a module and its submodules that can be imported."""
    if name.startswith("_"):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = importlib.import_module(name)
        except (ImportError, OSError):
            return
        yield module
        for child in pkgutil.iter_modules(getattr(module, "__path__", ())):
            if not child.name.startswith("_") and child.name not in ("test", "tests"):
                yield from _modules(f"{name}.{child.name}")


def _docstrings(module: ModuleType) -> Iterator[str]:
    yield inspect.getdoc(module) or ""
    for _, thing in sorted(vars(module).items()):
        if getattr(thing, "__module__", None) != module.__name__:
            continue
        yield inspect.getdoc(thing) or ""
        if inspect.isclass(thing):
            for _, member in sorted(vars(thing).items()):
                text = getattr(member, "__doc__", None)
                yield inspect.cleandoc(text) if callable(member) and text else ""


def _paragraphs(text: str) -> str:
    """Return one paragraph per line, so that line breaks do not cut sentences."""
    blocks = text.strip().split("\n\n")
    return "\n".join(" ".join(block.split()) for block in blocks if block.strip())


if __name__ == "__main__":
    main()
