"""The model before the first step: random weights, or those of another model."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from elmox.errors import Argument, ArgumentError
from elmox.model.checkpoint import Checkpoint, Softmax, build_indexer
from elmox.model.init import random_bilm
from elmox.model.softmax import FullSoftmax
from elmox.pretrained.load import load_checkpoint
from elmox.pretrained.native import VOCAB_FILE
from elmox.text.vocab import BEGIN_ID, END_ID
from elmox.text.words import WordTable
from elmox.training.corpus.corpus import Corpus, Lexicon
from elmox.training.keys import mixed_seed
from elmox.training.objective import make_softmax
from elmox.training.recipe import Recipe
from elmox.training.unigram import unigram_log_probs


def starting_point(recipe: Recipe, corpus: Corpus) -> Checkpoint:
    """Return `model.start`, or random weights, with a softmax for the corpus's vocabulary."""
    if recipe.model.start:
        start = load_checkpoint(recipe.model.start)
    else:
        config = recipe.model.config(corpus.vocab_size, corpus.info.tokenizer)
        start = Checkpoint(
            config=config,
            tensors=random_bilm(config, recipe.train.seed).state_dict(),
            description="random weights",
            words=corpus.vocab() if config.words else None,
        )
    if start.softmax is None:
        return replace(start, softmax=fresh_softmax(recipe, corpus, start))
    if start.softmax.vocab != corpus.vocab():
        vocab = Path(start.softmax.source).with_name(VOCAB_FILE)
        raise ArgumentError(
            "{} predicts other words than those of {}: prepare the text with {}, or fine-tune the "
            "model, which can change its vocabulary",
            recipe.model.start,
            corpus.path,
            Argument("vocab", str(vocab)),
        )
    return start


def word_table(
    lexicon: Lexicon, model: Checkpoint, source: str
) -> Callable[[NDArray[np.int64]], WordTable]:
    """Return a function from lexicon ids to the input of the model's token encoder."""
    config = model.config
    char_cnn, text = config.char_cnn, config.text
    if char_cnn and char_cnn.inventory == "bytes" and not config.words and not text.max_code_points:
        slots = char_cnn.max_characters
        return lambda ids: WordTable(spelling=lexicon.spell(ids, slots), ids=None)
    indexer = build_indexer(model, source)
    boundaries = {BEGIN_ID: text.begin, END_ID: text.end}  # their names differ between models

    def table(ids: NDArray[np.int64]) -> WordTable:
        words = lexicon.words(ids)
        for index, id in enumerate(ids.tolist()):
            if id in boundaries:
                words[index] = boundaries[id]
        return indexer(words)

    return table


def fresh_softmax(recipe: Recipe, corpus: Corpus, start: Checkpoint) -> Softmax:
    """Return a random softmax for the corpus's vocabulary, as wide as the model's outputs."""
    dim = start.config.lstm.projection_dim
    softmax = make_softmax(recipe.softmax, corpus.vocab_size, dim)
    generator = torch.Generator().manual_seed(mixed_seed("softmax", recipe.train.seed))
    softmax.init(generator)
    if recipe.softmax.bias == "unigram" and isinstance(softmax, FullSoftmax):
        log_probs = unigram_log_probs(corpus)
        # The backward direction predicts <S> as often as the forward one </S>.
        log_probs[BEGIN_ID] = log_probs[END_ID]
        with torch.no_grad():
            softmax.bias.copy_(torch.from_numpy(log_probs))
    return Softmax(softmax.state_dict(), corpus.vocab())
