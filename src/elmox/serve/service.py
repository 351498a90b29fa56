"""One worker's service: its models, its queue and its thread, behind a few calls."""

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from starlette.requests import Request

from elmox.elmo import Elmo
from elmox.errors import ElmoxError, shortened
from elmox.inference.layer_choice import choose_layers
from elmox.inference.outputs import Pooling
from elmox.serve.admission import Admission, check_inputs, check_tokens
from elmox.serve.batcher import Batcher, Operation
from elmox.serve.config import ServeConfig
from elmox.serve.keys import KeyRing, read_keys
from elmox.serve.metrics import Metrics
from elmox.serve.models import LoadedModel, ModelTable, load_models
from elmox.serve.operations import LayerKey, Sentence
from elmox.serve.record import record_of
from elmox.serve.refusals import Refusal, invalid
from elmox.serve.schemas import Text
from elmox.serve.texts import TokenizedText, tokenize_texts, tokenize_with_offsets
from elmox.serve.tracing import Tracer

Item = TypeVar("Item")

INLINE_CHARACTERS = 20_000  # tokenized by the event loop itself, in well under 10 ms


class Service:
    """Models, keys, limits, queue and metrics of a worker.

    Attributes:
        is_ready: whether the models are loaded and warm.
        is_draining: whether the worker is about to stop.
    """

    def __init__(self, config: ServeConfig) -> None:
        """Read keys and set up everything except the models."""
        self.config, self.limits = config, config.limits
        self.keys = KeyRing(read_keys(config.api_key_file))
        self.metrics = Metrics()
        self.admission = Admission(config.limits)
        self.tracer = Tracer() if config.tracing else None
        self.batcher = Batcher(config.limits.batch_tokens, self.metrics.observe_batch)
        self.table = ModelTable()
        self.is_ready = self.is_draining = False

    async def load(self) -> None:
        """Load the models in the computing thread; requests are refused meanwhile."""
        loop = asyncio.get_running_loop()
        self.table = await loop.run_in_executor(self.batcher.executor, load_models, self.config)
        self.is_ready = True
        self.metrics.ready.set(1)

    def model(self, request: Request, name: str | None) -> LoadedModel:
        """Return a model from the table and note it in the request's record."""
        model = self.table.model(name)
        record_of(request).model = model.name
        return model

    async def tokenize(self, elmo: Elmo, texts: Sequence[Text]) -> list[Sentence]:
        """Tokenize texts; check their number and their tokens."""
        sentences = await self._tokenize(tokenize_texts, elmo, texts)
        check_tokens(self.limits, list(map(len, sentences)))
        return sentences

    async def tokenize_with_offsets(
        self, elmo: Elmo, texts: Sequence[Text], split: bool
    ) -> list[TokenizedText]:
        """Tokenize texts and locate their tokens; check their number and their tokens."""
        items = await self._tokenize(tokenize_with_offsets, elmo, texts, split)
        check_tokens(self.limits, [len(item.tokens) for item in items])
        return items

    async def _tokenize(
        self, tokenize: Callable[..., list[Item]], elmo: Elmo, texts: Sequence[Text], *more: Any
    ) -> list[Item]:
        check_inputs(self.limits, len(texts))
        size = sum(len(text) for text in texts if isinstance(text, str))
        if size <= INLINE_CHARACTERS:
            return tokenize(elmo, texts, *more)
        return await asyncio.to_thread(tokenize, elmo, texts, *more)

    def admit(self, request: Request, num_inputs: int, num_tokens: int) -> None:
        """Accept a request's work into the queue, or refuse it with 429.

        The gate releases it when the response has been sent.
        """
        record = record_of(request)
        record.num_inputs += num_inputs
        record.num_tokens += num_tokens
        cost = num_tokens + 2 * num_inputs  # a sentence has two boundaries
        self.admission.admit(cost, self.metrics.tokens_per_second)
        record.admitted_tokens += cost
        self.metrics.queue_tokens.set(self.admission.num_tokens)

    async def compute(
        self, request: Request, operation: Operation, inputs: Sequence[Any], num_tokens: int
    ) -> list[Any]:
        """Compute admitted work: a result per input."""
        record = record_of(request)
        cost = num_tokens + 2 * len(inputs)
        try:
            return await self.batcher.submit(operation, inputs, cost, record.connection)
        except ElmoxError as error:
            raise Refusal(422, "invalid_value", str(error), param="input") from None

    async def admit_and_compute(
        self, request: Request, operation: Operation, sentences: Sequence[Sentence]
    ) -> list[Any]:
        """Admit tokenized sentences and compute them."""
        num_tokens = sum(map(len, sentences))
        self.admit(request, len(sentences), num_tokens)
        return await self.compute(request, operation, sentences, num_tokens)


def layer_key(layers: str | int | list[int], elmo: Elmo) -> LayerKey:
    """Return a choice of layers as something hashable; refuse one that the model cannot serve."""
    if isinstance(layers, list) and len(layers) > elmo.num_layers:
        raise invalid("layers", f"{shortened(layers)} lists more than {elmo.num_layers} layers")
    key = tuple(layers) if isinstance(layers, list) else layers
    try:
        vector_shape(elmo, key)
    except ElmoxError as error:
        raise Refusal(422, "invalid_value", str(error), param="layers") from None
    return key


def check_pooling(pooling: Pooling, elmo: Elmo) -> None:
    """Refuse a pooling that the model does not have."""
    try:
        elmo.check_pooling(pooling)
    except ElmoxError as error:
        raise Refusal(422, "invalid_value", str(error), param="pooling") from None


@lru_cache(maxsize=256)
def vector_shape(elmo: Elmo, layers: LayerKey) -> tuple[int, ...]:
    """Return the shape of a vector, (D,), or of several chosen layers, (K, D)."""
    choice = choose_layers(layers, elmo.num_layers, elmo.mixes)
    return (elmo.dim,) if choice.single else (choice.num_chosen, elmo.dim)


def usage(num_tokens: int) -> dict[str, int]:
    """Return the size of a request as OpenAI's clients expect it."""
    return {"prompt_tokens": num_tokens, "total_tokens": num_tokens}
