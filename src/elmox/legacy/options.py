"""bilm-tf's options.json to our configuration, and back.

Old files differ: clips may be missing or null, word-vocabulary models have no `char_cnn`, and
`n_characters` is 261 in some and 262 in others. The last is ignored: the array's shape tells.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from elmox.config import CharCnnConfig, ElmoConfig, LstmConfig, WordConfig
from elmox.errors import ElmoxError

_REQUIRED = object()


def config_from_options(options: Mapping[str, Any], source: str) -> ElmoConfig:
    """The network that an options file describes.

    Args:
        options: the parsed file.
        source: its name, for error messages.
    """
    cell_dim = _get(options, "lstm.dim", int, source)
    projection_dim = _get(options, "lstm.projection_dim", int, source)
    lstm = LstmConfig(
        cell_dim=cell_dim,
        projection_dim=projection_dim,
        has_projection=cell_dim != projection_dim,
        num_layers=_get(options, "lstm.n_layers", int, source, 1),
        cell_clip=_get(options, "lstm.cell_clip", float, source, None),
        proj_clip=_get(options, "lstm.proj_clip", float, source, None),
        skip_connections=bool(_get(options, "lstm.use_skip_connections", bool, source, False)),
        bidirectional=bool(_get(options, "bidirectional", bool, source, True)),
    )
    if "char_cnn" not in options:
        words = WordConfig(_get(options, "n_tokens_vocab", int, source, 1), lstm.projection_dim)
        return ElmoConfig(lstm=lstm, char_cnn=None, words=words, token_projection=False)
    char_cnn = CharCnnConfig(
        filters=_filters(_get(options, "char_cnn.filters", list, source), source),
        embedding_dim=_get(options, "char_cnn.embedding.dim", int, source),
        max_characters=_get(options, "char_cnn.max_characters_per_token", int, source, 50),
        activation=_get(options, "char_cnn.activation", str, source, "relu"),
        num_highways=_get(options, "char_cnn.n_highway", int, source, None) or 0,
    )
    projects = char_cnn.num_filters != lstm.projection_dim
    if options["char_cnn"].get("projection_after_highway") is False and projects:
        raise ElmoxError(
            f"{source}: projection_after_highway is false; elmox reads models that project after "
            "the highways, as every released one does"
        )
    return ElmoConfig(lstm=lstm, char_cnn=char_cnn, token_projection=projects)


def options_from_config(config: ElmoConfig) -> dict[str, Any]:
    """The options file that describes a network; `n_characters` as prediction code wants it."""
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
    """The same LSTMs reading word ids instead of spellings."""
    words = WordConfig(num_words, config.lstm.projection_dim)
    return replace(config, char_cnn=None, words=words, token_projection=False)


def _get(
    options: Mapping[str, Any], path: str, kind: type, source: str, default: Any = _REQUIRED
) -> Any:
    value: Any = options
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    if value is None:
        if default is _REQUIRED:
            raise ElmoxError(f"{source} lacks {path}: is it the options file of an ELMo model?")
        return default
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ElmoxError(f"{source}: {path} is {value!r}, expected {kind.__name__}")
    return value


def _filters(values: list[Any], source: str) -> tuple[tuple[int, int], ...]:
    for bank in values:
        is_pair = isinstance(bank, list) and len(bank) == 2
        if not is_pair or not all(isinstance(number, int) for number in bank):
            raise ElmoxError(f"{source}: char_cnn.filters has {bank!r}, expected [width, count]")
    return tuple((width, count) for width, count in values)
