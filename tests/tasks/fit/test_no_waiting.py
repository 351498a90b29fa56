"""A training step never makes the host wait for a GPU, except once per document in coreference.

Without a GPU this shows on torch's meta device: its tensors have shapes and no values, so reading
one raises. With a GPU torch itself warns about each wait.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from inspect import currentframe
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from elmox.io.conllu import TreebankSentence
from elmox.io.transfer import to_device
from elmox.tasks.classify.network import LabeledText
from elmox.tasks.coref import mentions
from elmox.tasks.coref.documents import Document
from elmox.tasks.data.batches import TaskData, distinct_sentences
from elmox.tasks.data.conll2012 import Mention
from elmox.tasks.data.propositions import Argument, Proposition, RoleSentence
from elmox.tasks.data.texts import Words, frequent_words
from elmox.tasks.entailment.network import EntailmentPair
from elmox.tasks.model import ElmoUsed, ModelDescription, TaskModel
from elmox.tasks.nn.embedder import ElmoShape
from elmox.tasks.qa.passages import tokenized_questions
from elmox.tasks.qa.questions import Answer, Question
from elmox.tasks.recipe import task_recipe
from elmox.tasks.registry import TASKS, find_task
from elmox.tasks.sentiment.network import Opinion
from elmox.tasks.tagging.columns import TaggedSentence

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

META = torch.device("meta")
TAGGED = [
    TaggedSentence(("Ada", "met", "him"), ("B-PER", "O", "O")),
    TaggedSentence(("x",), ("O",)),
]
ROLES = (Argument("ARG0", 0, 1), Argument("V", 1, 2), Argument("ARG1", 2, 4))
SQUAD_QUESTIONS = [
    Question(
        "a", "Ada lived in London.", "Where?", (Answer("London", 13), Answer("in London", 10))
    ),
    Question("b", "He ran.", "Who was it that ran?", (Answer("He", 0),)),
    Question("c", "He ran.", "Why?", (), is_impossible=True),
]
EXAMPLES: dict[str, list[Any]] = {
    "classify": [LabeledText((("a", "b"),), "x"), LabeledText(((),), "y")],
    "pos": TAGGED,
    "ner": TAGGED,
    "chunk": TAGGED,
    "srl": [
        RoleSentence("a", ("Ada", "gave", "a", "book"), (), (Proposition(1, "", "", ROLES),)),
        RoleSentence("b", ("no", "verb"), (), ()),
        RoleSentence("c", ("He", "fell"), (), (Proposition(1, "", "", ROLES[:2]),)),
    ],
    "parse": [
        TreebankSentence(words, words, words, words, words, heads, words, (), 1)
        for words, heads in ((("the", "cat", "slept"), (2, 3, 0)), (("Stop",), (0,)))
    ],
    "nli": [
        EntailmentPair(("a", "b"), ("c",), "neutral"),
        EntailmentPair((), ("d",), "entailment"),
    ],
    "sst": [Opinion(("very", "good"), 4), Opinion(("bad",), 1)],
    "qa": tokenized_questions(SQUAD_QUESTIONS),
    "coref": [
        Document(
            (("Ada", "saw", "the", "old", "king"), ("She", "liked", "him")),
            ((Mention(0, 1), Mention(5, 6)), (Mention(2, 5), Mention(7, 8))),
            (*"AAAAABBB",),
        ),
        Document((("He", "slept"),), ((Mention(0, 1),),)),
    ],
}
SMALL = {"pos": "[4, 4]", "ner": "[4, 4]", "chunk": "[4, 4]", "parse": "[4, 4]", "coref": "[4, 4]"}
OTHERS = {
    "srl": ["head.layers=3"],
    "parse": ["head.arc_dim=4", "head.relation_dim=4"],
    "sst": ["head.maxout=[4]"],
    "qa": ["head.no_answer=true"],
    "coref": ["head.feed_forward=[4, 4]", "head.feature_dim=3", "head.max_width=3"],
}
# Selecting spans that do not cross takes a number of rounds that depends on the scores: the host
# checks once per document whether they were enough.
NUM_WAITS = {"coref": len(EXAMPLES["coref"])}

Step = Callable[[], None]


def training_step(name: str, place: str, device: torch.device) -> Step:
    """Loss and gradients of a tiny model; `place` is ELMo's, or none."""
    task, examples, used, layers = find_task(name), EXAMPLES[name], None, None
    sizes = ["words.dim=4", "words.filters=4", "words.min_count=1"]
    head = [f"head.hidden={SMALL.get(name, 4)}", *OTHERS.get(name, [])]
    elmo = ["elmo.model=none"] if place == "none" else [f"elmo.place={place}"]
    recipe = task_recipe(None, [*sizes, *head, *elmo])
    sentences = distinct_sentences(task, examples)
    if place != "none":
        used = ElmoUsed(ElmoShape(3, 5), "")
        layers = [np.ones((3, len(sentence), 5), np.float16) for sentence in sentences]
    config = asdict(task.configure(examples, task.parse_settings(recipe.head)))
    description = ModelDescription(name, recipe, config, used)
    model = TaskModel(description, Words(frequent_words(sentences, 1))).to(device).train()
    data = TaskData(model, examples, layers)

    def step() -> None:
        loss = model.loss(*data.batch(np.arange(len(examples)), device))
        loss.backward()  # type: ignore[no-untyped-call]
        assert loss.device.type == device.type

    return step


class Copies(TorchFunctionMode):
    """Refuses tensors that are made of Python's numbers on a device: those are copied there."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in (torch.tensor, torch.as_tensor, Tensor.new_tensor):
            assert result.device.type == "cpu", f"{func} waits: give to_device an array"
        return result


class Masks(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses what meta tensors allow and a GPU waits for."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        name, on_meta = func.overloadpacket.__name__, args and is_on(args[0], "meta")
        if name in ("index", "index_put", "index_put_", "_index_put_impl_") and on_meta:
            for index in args[1]:
                assert index is None or index.dtype != torch.bool, f"{name} waits: by a mask"
                assert not is_on(index, "cpu"), f"{name} waits: by indices on the CPU"
        options = kwargs or {}
        sent = name == "_to_copy" and options.get("device") == META and is_on(args[0], "cpu")
        if sent or (name == "copy_" and on_meta and is_on(args[1], "cpu")):
            assert is_called_by(to_device), f"{name} waits: send it by to_device"
        return func(*args, **options)


@contextmanager
def watched() -> Iterator[None]:
    with Copies(), Masks():  # type: ignore[no-untyped-call]
        yield


def is_on(value: Any, device: str) -> bool:
    return isinstance(value, Tensor) and value.device.type == device


def is_called_by(function: Any) -> bool:
    frame = currentframe()
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the tasks whose waits were replaced, because the meta device has no values."""
    waits = []

    def without_rivals(there: Tensor, rivals: Tensor) -> tuple[Tensor, int]:
        waits.append("coref")
        return there, there.numel()

    monkeypatch.setattr(mentions, "_without_rivals", without_rivals)
    # Autocast does not support the meta device.
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    return waits


def test_there_are_examples_of_every_task() -> None:
    assert set(EXAMPLES) == set(TASKS)


@pytest.mark.parametrize("place", ["none", "input", "middle", "both"])
@pytest.mark.parametrize("name", TASKS)
def test_a_step_does_not_wait(name: str, place: str, waits: list[str]) -> None:
    step = training_step(name, place, META)
    with watched():
        step()
    assert waits == [name] * NUM_WAITS.get(name, 0)


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: x.tolist(),
        lambda x: x.cpu(),
        lambda x: 1 if x.any() else 0,
        lambda x: x[: x.long()[0, 0]],
        lambda x: x.nonzero(),
        lambda x: torch.where(x > 0),
        lambda x: x.masked_select(x > 0),
        lambda x: x[x > 0],
        lambda x: x.index_put_((x > 0,), torch.zeros((), device=META)),
        lambda x: x.unique(),
        lambda x: torch.equal(x, x),
        lambda x: x.repeat_interleave(x.long()[0], dim=1),
        lambda x: x[torch.arange(2)],
        lambda x: torch.zeros(2).to(META),
        lambda x: x.copy_(torch.zeros(2, 3)),
        lambda x: torch.tensor([1.0], device=META),
    ],
)
def test_waits_are_noticed(wait: Callable[[Tensor], object]) -> None:
    noticed = (AssertionError, RuntimeError)  # ours; meta tensors'
    with pytest.raises(noticed), watched():
        wait(torch.zeros(2, 3, device=META))


@needs_gpu
@pytest.mark.parametrize("place", ["none", "both"])
@pytest.mark.parametrize("name", TASKS)
def test_a_step_on_a_gpu_waits_for_nothing(name: str, place: str) -> None:
    step = training_step(name, place, torch.device("cuda"))
    for _ in range(3):  # kernels are compiled, libraries made ready
        step()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    waits = [
        warning for warning in caught if "synchronizing CUDA operation" in str(warning.message)
    ]
    places = [f"{warning.filename}:{warning.lineno}" for warning in waits]
    assert len(places) == NUM_WAITS.get(name, 0), places
