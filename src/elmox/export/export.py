"""A model to a folder of ONNX graphs that runs without PyTorch and without elmox."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import onnx
import torch

from elmox.config import CharCnnConfig
from elmox.elmo import Elmo
from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.export.check import GOLDEN_TEXT, check_export, check_sentences
from elmox.export.context import add_context, context_inputs, context_outputs
from elmox.export.folder import (
    CHARACTERS_FILE,
    CONFIG_FILE,
    CONTEXT_GRAPH,
    GOLDEN_FILE,
    SINGLE_GRAPH,
    SOFTMAX_GRAPH,
    SOFTMAX_VOCAB_FILE,
    STATE_FILE,
    TOKENIZER_FILE,
    WORDS_FILE,
    WORDS_GRAPH,
    OnnxConfig,
    OnnxSpelling,
)
from elmox.export.graph import Graph, Weights, float32, is_float16
from elmox.export.javascript import tokenizer_file
from elmox.export.runtime import OnnxElmo, import_onnxruntime
from elmox.export.softmax import softmax_model
from elmox.export.token_encoder import add_encoder, array, encoder_inputs
from elmox.io.files import atomic_directory, refuse_existing, to_json
from elmox.model.bilm import BiLm
from elmox.model.checkpoint import Checkpoint, in_precision
from elmox.text import chars
from elmox.text.vocab import vocab_file

WEIGHTS = ("float16", "float32", "int8")


@dataclass(frozen=True)
class ExportReport:
    """An export that was written and checked.

    Attributes:
        path: the folder.
        weights: number format of the stored weights. "float16" without having been requested means
            that it is lossless; "mixed" that it is for some weights and the others are float32.
        files: size of each file in bytes.
        difference: largest difference to the model's vectors in float64, on the sentences of the
            check; relative for values above 1.
        cosine: smallest cosine with these vectors.
    """

    path: str
    weights: str
    files: dict[str, int]
    difference: float
    cosine: float

    def to_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return asdict(self)


def export_onnx(
    elmo: Elmo,
    out: str | Path,
    *,
    single: bool = False,
    state: bool = False,
    softmax: bool = False,
    weights: Weights | None = None,
    force: bool = False,
) -> ExportReport:
    """Write a model as ONNX graphs, with all that a program in any language needs to run them.

    The export is run in onnxruntime and compared with `elmo` before the folder appears; see
    `elmox.export.check`.

    Args:
        elmo: the model, in any precision and on any device.
        out: the folder to make; it appears whole or not at all.
        single: write one graph, elmo.onnx, in place of words.onnx and context.onnx. It cannot cache
            words.
        state: add a start state to the inputs and the final state to the outputs, and store the
            model's warm state if it has one.
        softmax: write softmax.onnx too, for scoring and for filling gaps.
        weights: "float16", "float32" or "int8". None stores each weight in float16 if that is
            lossless, otherwise in float32.
        force: replace `out` if it exists.

    Raises:
        ElmoxError: a bad argument, a missing package, or an export that does not agree with `elmo`.
    """
    import_onnxruntime()
    if weights is not None and weights not in WEIGHTS:
        raise ElmoxError(f"weights={weights!r}: expected {', '.join(map(repr, WEIGHTS))} or None")
    out = Path(out)
    refuse_existing(out, force)
    original = _plain_copy(elmo, softmax)
    stored = _rounded(original) if weights == "float16" else original
    with atomic_directory(out) as folder:
        config = _write(folder, stored, single, state, softmax, weights)
        agreement = check_export(folder, original, None if weights == "int8" else stored)
        _write_golden(folder, original)
        files = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    return ExportReport(str(out), config.weights, files, agreement.difference, agreement.cosine)


def _plain_copy(elmo: Elmo, softmax: bool) -> Elmo:
    """Return the model on the CPU in float32, starting from zero state."""
    checkpoint = elmo.checkpoint()
    if not softmax:
        checkpoint = replace(checkpoint, softmax=None)
    elif checkpoint.softmax is None:
        raise ArgumentError(
            "{}: {} has no softmax", Argument("softmax", True), checkpoint.description
        )
    tensors = {name: tensor.float().cpu() for name, tensor in checkpoint.tensors.items()}
    return Elmo(replace(checkpoint, tensors=tensors))


def _rounded(elmo: Elmo) -> Elmo:
    """Return the model with its weights rounded to float16, computing in float32."""
    return Elmo(in_precision(elmo.checkpoint(), torch.float16)).to("cpu", "float32")


def _write(
    folder: Path, elmo: Elmo, single: bool, state: bool, softmax: bool, weights: Weights | None
) -> OnnxConfig:
    """Write everything except the golden sentence."""
    bilm, checkpoint = elmo.reader.bilm, elmo.checkpoint()
    graphs = {SINGLE_GRAPH: _single_model(bilm, weights, state)} if single else {
        WORDS_GRAPH: _words_model(bilm, weights),
        CONTEXT_GRAPH: _context_model(bilm, weights, state),
    }  # fmt: skip
    if softmax:
        language_model = elmo.language_model
        dim = elmo.config.lstm.projection_dim
        graphs[SOFTMAX_GRAPH] = softmax_model(language_model.softmax, dim, weights)
        (folder / SOFTMAX_VOCAB_FILE).write_bytes(vocab_file(language_model.vocab.words))
    for name, model in graphs.items():
        onnx.save_model(model, folder / name)
    warm = checkpoint.warm_state if state else None
    if warm is not None:
        values = {"hidden": array(warm.hidden).tolist(), "cell": array(warm.cell).tolist()}
        _write_json(folder / STATE_FILE, values)
    for name, strings in ((CHARACTERS_FILE, checkpoint.characters), (WORDS_FILE, checkpoint.words)):
        if strings is not None:
            _write_json(folder / name, strings)
    config = OnnxConfig(
        description=checkpoint.description,
        weights=_stored_weights(bilm, weights),
        single=single,
        state=state,
        warm_state=warm is not None,
        softmax=softmax,
        num_layers=elmo.num_layers,
        dim=elmo.dim,
        num_directions=elmo.config.lstm.num_directions,
        projection_dim=elmo.config.lstm.projection_dim,
        cell_dim=elmo.config.lstm.cell_dim,
        tokenizer=elmo.config.text.tokenizer,
        begin=elmo.config.text.begin,
        end=elmo.config.text.end,
        max_code_points=elmo.config.text.max_code_points,
        spelling=_spelling(elmo.config.char_cnn, checkpoint),
        unknown_word=elmo.config.text.unknown if checkpoint.words is not None else None,
        mixes={
            name: {
                "weights": list(mix.weights),
                "gamma": mix.gamma,
                "coefficients": mix.coefficients().tolist(),
            }
            for name, mix in elmo.mixes.items()
        },
    )
    (folder / CONFIG_FILE).write_bytes(to_json(config.to_dict()))
    _write_json(folder / TOKENIZER_FILE, tokenizer_file(config.tokenizer))
    return config


def _words_model(bilm: BiLm, weights: Weights | None) -> onnx.ModelProto:
    graph = Graph(weights)
    graph.alias(add_encoder(graph, bilm.token_encoder), "vectors")
    return graph.model(
        "words",
        encoder_inputs(bilm.token_encoder),
        [float32("vectors", ["U", bilm.config.lstm.projection_dim])],
        "Distinct words to context-independent vectors.",
    )


def _context_model(bilm: BiLm, weights: Weights | None, state: bool) -> onnx.ModelProto:
    graph, lstm = Graph(weights), bilm.config.lstm
    add_context(graph, bilm, "vectors", state)
    return graph.model(
        "context",
        [float32("vectors", ["U", lstm.projection_dim]), *context_inputs(lstm, state)],
        context_outputs(lstm, state),
        "Vectors of distinct words, and sentences that refer to them, to all layers.",
    )


def _single_model(bilm: BiLm, weights: Weights | None, state: bool) -> onnx.ModelProto:
    graph, lstm = Graph(weights), bilm.config.lstm
    add_context(graph, bilm, add_encoder(graph, bilm.token_encoder), state)
    return graph.model(
        "elmo",
        [*encoder_inputs(bilm.token_encoder), *context_inputs(lstm, state)],
        context_outputs(lstm, state),
        "Distinct words, and sentences that refer to them, to all layers.",
    )


def _spelling(char_cnn: CharCnnConfig | None, checkpoint: Checkpoint) -> OnnxSpelling | None:
    if char_cnn is None:
        return None
    widest = max(width for width, _ in char_cnn.filters)
    if checkpoint.characters is None:
        return OnnxSpelling(
            inventory="bytes",
            max_characters=char_cnn.max_characters,
            widest_filter=widest,
            begin_word=chars.BEGIN_WORD_ID,
            end_word=chars.END_WORD_ID,
            padding=chars.WORD_PADDING_ID,
            first_byte=chars.FIRST_BYTE_ID,
            unknown=None,
            specials={
                chars.BEGIN_SENTENCE: chars.BEGIN_SENTENCE_ID,
                chars.END_SENTENCE: chars.END_SENTENCE_ID,
            },
        )
    ids = {character: i for i, character in enumerate(checkpoint.characters)}
    return OnnxSpelling(
        inventory="unicode",
        max_characters=char_cnn.max_characters,
        widest_filter=widest,
        begin_word=ids["<eow>"],  # exchanged in training, see `spell_unicode`
        end_word=ids["<bow>"],
        padding=ids["<pad>"],
        first_byte=None,
        unknown=ids["<oov>"],
        specials={word: ids[word] for word in ("<bos>", "<eos>")},
    )


def _stored_weights(bilm: BiLm, weights: Weights | None) -> str:
    """Return the number format of the stored matrices; biases are always float32."""
    if weights is not None:
        return weights
    parts = bilm.state_dict().items()
    lossless = [is_float16(array(tensor)) for name, tensor in parts if not name.endswith("bias")]
    return "float16" if all(lossless) else "mixed" if any(lossless) else "float32"


def _write_golden(folder: Path, elmo: Elmo) -> None:
    """Write a sentence and the vectors that the export gives it, which have been checked."""
    tokens = check_sentences(elmo)[-1]
    layers = OnnxElmo.from_pretrained(folder).encode_tokens([tokens], layers="all")[0]
    golden = {
        "text": GOLDEN_TEXT if tokens == elmo.tokenize(GOLDEN_TEXT) else None,
        "tokens": tokens,
        "layers": layers.tolist(),
    }
    _write_json(folder / GOLDEN_FILE, golden)


def _write_json(path: Path, value: Any) -> None:
    """Write JSON without spaces, in ASCII: it is for programs in any language."""
    path.write_text(json.dumps(value, separators=(",", ":")), "ascii")
