"""`elmox neighbors`: what is nearest to a word of a sentence, in context and without it."""

import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from elmox.cli.embed import parse_layers
from elmox.cli.model_options import (
    Device,
    Json,
    ModelPath,
    Options,
    Raw,
    TextFile,
    TokenFile,
    Tokenized,
    VocabFile,
)

if TYPE_CHECKING:
    from elmox.probes.neighbors import Neighbors


def command(
    model: ModelPath,
    text: TextFile,
    sentence: Annotated[
        str,
        typer.Argument(
            help='A sentence: "The actors left before the play was over."',
            show_default=False,
        ),
    ],
    word: Annotated[
        str, typer.Option(help="The word of the sentence in question.", show_default=False)
    ],
    occurrence: Annotated[
        int, typer.Option(help="Which one, where the sentence has it several times.", min=1)
    ] = 1,
    layer: Annotated[
        str, typer.Option(help="Whose vectors: top, average, mix, mix:NAME, or a number.")
    ] = "top",
    k: Annotated[int, typer.Option("-k", help="How many neighbors of each kind.", min=1)] = 5,
    same_word: Annotated[
        bool,
        typer.Option(
            "--same-word/--any-word",
            help="Only the same word (in any case) in other sentences: far quicker.",
        ),
    ] = False,
    tokenized: Tokenized = False,
    raw: Raw = False,
    device: Device = None,
    options: Options = None,
    vocab: VocabFile = None,
    token_embeddings: TokenFile = None,
    as_json: Json = False,
) -> None:
    """Find the nearest neighbors of a word in a sentence, by cosine, over a text of yours.

    First those in context: words in other sentences of the text, one a sentence, with their
    similarity, the sentence behind them and the word in it in [brackets]. Then, for comparison, the
    neighbors of the word by itself (layer 0) among the text's distinct words. The sentence itself
    is left out where the text has it; sentences that the text repeats come once.
    """
    # A text of gigabytes has batches of many shapes; see `elmox embed`.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    from elmox.elmo import Elmo
    from elmox.io.text_files import check_text
    from elmox.probes.neighbors import find_neighbors, find_word
    from elmox.text.lines import line_format, read_lines

    check_text(text)
    elmo = Elmo.from_pretrained(
        model, options=options, vocab=vocab, token_embeddings=token_embeddings, device=device
    )
    tokens = sentence.split() if tokenized else elmo.tokenize(sentence)
    position = find_word(tokens, word, occurrence)
    lines = read_lines(text, line_format(text, tokenized), elmo.tokenize)
    found = find_neighbors(
        elmo,
        tokens,
        position,
        (own for line in lines for own in line.sentences),
        layer=parse_layers(layer),
        k=k,
        same_word=same_word,
        show_progress_bar=sys.stderr.isatty(),
    )
    if as_json:
        asked = {"sentence": tokens, "position": position, "word": word, "layer": layer}
        typer.echo(json.dumps({**asked, **_values(found)}, ensure_ascii=False))
        return
    typer.echo(f"in context, layer {layer}: {marked(tokens, position)}")
    for near in found.in_context:
        shown = marked(near.sentence, near.position)
        typer.echo(f"{near.similarity:.4f}\t{near.word}\t{shown}")
    typer.echo(f"\nwithout context: {word}")
    for alike in found.context_free:
        typer.echo(f"{alike.similarity:.4f}\t{alike.word}")


def marked(sentence: "list[str] | tuple[str, ...]", position: int) -> str:
    """A sentence with one of its words in brackets."""
    before, after = sentence[:position], sentence[position + 1 :]
    return " ".join([*before, f"[{sentence[position]}]", *after])


def _values(found: "Neighbors") -> "dict[str, object]":
    values = asdict(found)
    for near, own in zip(values["in_context"], found.in_context, strict=True):
        near["word"] = own.word
    return values
