"""The paper's tagger (supplement A.6; Lample et al. 2016, Peters et al. 2017).

Bidirectional LSTMs, then a CRF whose transitions are those that the tags' scheme allows. With
`elmo.place = "middle"`, ELMo joins after the first layer, as in TagLM.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from elmox.config import Strict
from elmox.io.settings import Share
from elmox.io.transfer import to_device
from elmox.tasks.base import Head, HeadSettings
from elmox.tasks.nn.crf import Crf
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.nn.encoder import Encoder, LayerWidths
from elmox.tasks.nn.padding import padded_labels
from elmox.tasks.tagging.columns import TaggedSentence
from elmox.tasks.tagging.spans import Scheme, allowed_transitions, converted

ANY_SCHEME: Scheme = "BIOUL"  # read as BIOUL, tags of all schemes have the same spans


@dataclass(frozen=True)
class TaggerSettings(HeadSettings):
    """Settings of a recipe's `[head]`.

    Attributes:
        hidden: LSTM cells of each direction, layer by layer.
        dropout: on the output of each layer.
    """

    hidden: LayerWidths = (200, 200)
    dropout: Share = 0.5


@dataclass(frozen=True)
class TaggerConfig(Strict):
    """A tagger without its weights."""

    settings: TaggerSettings
    tags: tuple[str, ...]
    scheme: Scheme | None  # of tags that mark spans


class Tagger(Head[TaggedSentence, list[str]]):
    """Bidirectional LSTMs and a CRF. Spans are predicted in BIO, the plainest scheme."""

    def __init__(self, config: TaggerConfig, widths: Widths) -> None:
        super().__init__()
        settings, self._tags = config.settings, config.tags
        self._scheme = config.scheme
        self._ids = {tag: index for index, tag in enumerate(self._tags)}
        self._cached_ids: dict[tuple[str, ...], list[int]] = {}
        self.encoder = Encoder(widths, settings.hidden, nn.Dropout(settings.dropout))
        self.scores = nn.Linear(self.encoder.width, len(self._tags))
        self.crf = Crf(len(self._tags), *allowed_transitions(self._tags, self._scheme))

    def forward(self, texts: Embedded) -> Tensor:
        """Return a score for every word and tag, (N, T, C)."""
        scores: Tensor = self.scores(self.encoder(texts))
        return scores

    def loss(self, texts: Embedded, examples: Sequence[TaggedSentence]) -> Tensor:
        """Return the mean over sentences of the tags' negative log-likelihood."""
        rows = (self._tag_ids(example.tags) for example in examples)
        tags = padded_labels(rows, texts.mask.shape, fill=0)
        loss: Tensor = self.crf(self(texts), to_device(tags, texts.mask.device), texts.mask)
        return loss

    def predict(self, texts: Embedded, examples: Sequence[TaggedSentence]) -> list[list[str]]:
        """Return the most likely tags of each sentence."""
        paths = self.crf.decode(self(texts), texts.mask)
        tags = [[self._tags[index] for index in path] for path in paths]
        return tags if self._scheme is None else [converted(t, self._scheme, "BIO") for t in tags]

    def _tag_ids(self, tags: tuple[str, ...]) -> list[int]:
        """Return the ids of a sentence's tags in the model's scheme; cached for later epochs."""
        if tags not in self._cached_ids:
            same = tags if self._scheme is None else converted(tags, ANY_SCHEME, self._scheme)
            self._cached_ids[tags] = [self._ids[tag] for tag in same]
        return self._cached_ids[tags]
