"""bilm-tf's options.json to our configuration, and back.

Old files differ: clips may be missing or null, word-vocabulary models have no `char_cnn`, and
`n_characters` is 261 in some and 262 in others, which is ignored: the array has its shape.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from elmox.config import CharCnnConfig, ElmoConfig, LstmConfig, WordConfig
from elmox.errors import ElmoxError, shortened

REQUIRED = object()


def config_from_options(options: Mapping[str, Any], source: str) -> ElmoConfig:
    """Return the network that an options file describes.

    Args:
        options: the parsed file.
        source: its name, for error messages.
    """
    try:
        return _config(options)
    except ElmoxError as error:
        raise ElmoxError(f"{source}: {error}") from error


def options_from_config(config: ElmoConfig) -> dict[str, Any]:
    """Return the options that describe a network; `n_characters` is 262, as for prediction."""
    lstm = config.lstm
    options: dict[str, Any] = {
        "bidirectional": lstm.bidirectional,
        "lstm": {
            "use_skip_connections": lstm.skip_connections,
            "projection_dim": lstm.projection_dim,
            "cell_clip": lstm.cell_clip,
            "proj_clip": lstm.proj_clip,
            "dim": lstm.cell_dim,
            "n_layers": lstm.num_layers,
        },
    }
    if config.char_cnn is not None:
        options["char_cnn"] = {
            "activation": config.char_cnn.activation,
            "filters": [list(bank) for bank in config.char_cnn.filters],
            "n_highway": config.char_cnn.num_highways,
            "embedding": {"dim": config.char_cnn.embedding_dim},
            "n_characters": config.char_cnn.num_characters,
            "max_characters_per_token": config.char_cnn.max_characters,
        }
    elif config.words is not None:
        options["n_tokens_vocab"] = config.words.num_words
    return options


def word_config(config: ElmoConfig, num_words: int) -> ElmoConfig:
    """Return the configuration of the same LSTMs, reading word ids instead of spellings."""
    words = WordConfig(num_words, config.lstm.projection_dim)
    return replace(config, char_cnn=None, words=words, token_projection=False)


def get_option(options: Mapping[str, Any], path: str, kind: type, default: Any = REQUIRED) -> Any:
    """Return a value of a parsed options file after a check; null counts as missing.

    Args:
        options: the parsed file.
        path: keys with dots between them.
        kind: the expected type; float accepts whole numbers too.
        default: for a missing value, which is an error by default.
    """
    value: Any = options
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    if value is None:
        if default is REQUIRED:
            raise ElmoxError(f"lacks {path}: is it the options file of an ELMo model?")
        return default
    if kind is float and type(value) is int and abs(value) < 2**63:
        value = float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ElmoxError(f"{path} is {shortened(value)}, expected {kind.__name__}")
    return value


def get_filters(options: Mapping[str, Any], path: str) -> tuple[tuple[int, int], ...]:
    """Return the filter banks of a parsed options file after a check."""
    banks = get_option(options, path, list)
    for bank in banks:
        is_pair = isinstance(bank, list) and len(bank) == 2
        if not is_pair or not all(type(number) is int for number in bank):
            raise ElmoxError(f"{path} has {shortened(bank)}, expected [width, count]")
    return tuple((width, count) for width, count in banks)


def _config(options: Mapping[str, Any]) -> ElmoConfig:
    cell_dim = get_option(options, "lstm.dim", int)
    projection_dim = get_option(options, "lstm.projection_dim", int)
    lstm = LstmConfig(
        cell_dim=cell_dim,
        projection_dim=projection_dim,
        has_projection=cell_dim != projection_dim,
        num_layers=get_option(options, "lstm.n_layers", int, 1),
        cell_clip=get_option(options, "lstm.cell_clip", float, None),
        proj_clip=get_option(options, "lstm.proj_clip", float, None),
        skip_connections=get_option(options, "lstm.use_skip_connections", bool, False),
        bidirectional=get_option(options, "bidirectional", bool, True),
    )
    if "char_cnn" not in options:
        words = WordConfig(get_option(options, "n_tokens_vocab", int, 1), lstm.projection_dim)
        return ElmoConfig(lstm=lstm, char_cnn=None, words=words, token_projection=False)
    char_cnn = CharCnnConfig(
        filters=get_filters(options, "char_cnn.filters"),
        embedding_dim=get_option(options, "char_cnn.embedding.dim", int),
        max_characters=get_option(options, "char_cnn.max_characters_per_token", int, 50),
        activation=get_option(options, "char_cnn.activation", str, "relu"),
        num_highways=get_option(options, "char_cnn.n_highway", int, 0),
    )
    projects = char_cnn.num_filters != lstm.projection_dim
    if not get_option(options, "char_cnn.projection_after_highway", bool, True) and projects:
        raise ElmoxError(
            "char_cnn.projection_after_highway is false, expected true as in every released model"
        )
    return ElmoConfig(lstm=lstm, char_cnn=char_cnn, token_projection=projects)
