"""The component `elmox`: contextual vectors for documents, spans and tokens.

    nlp = spacy.blank("en")
    nlp.add_pipe("elmox", config={"model": "english-small", "layers": "top"})
    doc = nlp("He plays the bass.")
    doc.tensor, doc[3].vector, doc[3].similarity(doc[1])

Vectors are those of `Elmo.encode_tokens` for spaCy's own tokens.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from weakref import ref

import srsly
from spacy.language import Language
from spacy.pipeline.tok2vec import Tok2VecListener
from spacy.tokens import Doc
from thinc.api import Model, get_current_ops

from elmox.errors import Argument, ArgumentError, ElmoxError, require_at_least
from elmox.integrations.spacy.batches import BatchComponent
from elmox.integrations.spacy.bilm import Bilm
from elmox.integrations.spacy.hooks import Pooling, check_pooling, set_hooks
from elmox.integrations.spacy.requirement import add_requirement
from elmox.integrations.spacy.sentences import (
    FloatArray,
    SentenceMode,
    check_mode,
    fill,
    sentences_of,
)
from elmox.io.files import read_json, to_json, write_whole

SETTINGS_FILE, MODEL_FOLDER = "elmox.json", "model"


class ElmoxComponent(BatchComponent):
    """Sets `doc.tensor` and what spaCy derives from it.

    Attributes:
        name: of this component in its pipeline.
        bilm: the biLM.
        layers: the layers that become vectors.
        sentences: the sentences that the biLM reads.
        pooling: from words to spans and documents.
        batch_tokens: tokens per batch in `nlp.pipe`.
        store_layers: keep all layers as `doc._.elmo_layers`.
        store_model: save the biLM with the pipeline.
    """

    def __init__(
        self,
        nlp: Language,
        name: str,
        bilm: Bilm,
        layers: str | int,
        sentences: SentenceMode,
        pooling: Pooling,
        batch_tokens: int | None,
        store_layers: bool,
        store_model: bool,
    ) -> None:
        """Check the options; the biLM is loaded with the first document."""
        require_at_least(1, "batch_tokens", batch_tokens)
        if layers == "all":
            raise ArgumentError(
                "{} is several vectors per token, expected one: keep all layers with {}",
                Argument("layers", "all"),
                Argument("store_layers", True),
            )
        self.name, self.bilm = name, bilm
        self.layers, self.sentences, self.pooling = layers, sentences, pooling
        self.batch_tokens, self.store_layers = batch_tokens, store_layers
        self.store_model = store_model
        self._nlp = ref(nlp)
        self._checked_pipeline: list[str] = []
        self._expected_digest: str | None = None
        if not Doc.has_extension("elmo_layers"):
            Doc.set_extension("elmo_layers", default=None)

    def annotate(self, docs: Sequence[Doc]) -> None:
        """Set the vectors of several documents."""
        self._require_last()
        elmo = self.bilm.elmo
        if self._expected_digest is not None:
            self.bilm.require(self._expected_digest)
            self._expected_digest = None
        sentences = [sentences_of(doc, self.sentences) for doc in docs]
        words = [sentence.words for of_doc in sentences for sentence in of_doc]
        vectors = iter(
            elmo.encode_tokens(
                words,
                layers="all" if self.store_layers else self.layers,
                batch_tokens=self.batch_tokens,
                show_progress_bar=False,
            )
        )
        shape = (elmo.num_layers, elmo.dim) if self.store_layers else (elmo.dim,)
        ops: Any = get_current_ops()
        for doc, of_doc in zip(docs, sentences, strict=True):
            filled = fill(len(doc), of_doc, [next(vectors) for _ in of_doc], shape)
            if self.store_layers:
                doc._.elmo_layers = filled
                filled = self._chosen(filled)
            doc.tensor = ops.asarray(filled)
            set_hooks(doc, self.pooling)

    def _chosen(self, layers: FloatArray) -> FloatArray:
        """Return the selected layers (T, D) of all layers (J, T, D)."""
        import torch

        from elmox.inference.layer_choice import choose_layers

        elmo = self.bilm.elmo
        choice = choose_layers(self.layers, elmo.num_layers, elmo.mixes)
        chosen: FloatArray = choice.apply(torch.from_numpy(layers))[0].numpy()
        return chosen

    def _require_last(self) -> None:
        """Refuse components that would read the vectors as their features, or replace them."""
        nlp = self._nlp()
        if nlp is None or nlp.pipe_names == self._checked_pipeline:
            return
        pipes = [pipe for _, pipe in nlp.pipeline]
        after = pipes.index(self) + 1 if self in pipes else len(pipes)
        for name, pipe in nlp.pipeline[after:]:
            model = getattr(pipe, "model", None)
            nodes = model.walk() if isinstance(model, Model) else ()
            listens = any(isinstance(node, Tok2VecListener) for node in nodes)
            if listens or "doc.tensor" in nlp.get_pipe_meta(name).assigns:
                raise ElmoxError(
                    f"the component {name!r} comes after {self.name!r} and uses doc.tensor for "
                    f"features of its own: add {self.name!r} after it"
                )
        self._checked_pipeline = nlp.pipe_names

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write a digest of the biLM and, with `store_model`, the biLM."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        if self.store_model:
            self.bilm.save(folder / MODEL_FOLDER)
        write_whole(folder / SETTINGS_FILE, [to_json({"digest": self.bilm.digest()})])

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "ElmoxComponent":
        """Read what `to_disk` has written; another biLM is refused with the first document."""
        folder = Path(path)
        self._expected_digest = read_json(folder / SETTINGS_FILE)["digest"]
        if (folder / MODEL_FOLDER).is_dir():
            self.bilm.load(folder / MODEL_FOLDER)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return a digest of the biLM and, with `store_model`, the biLM."""
        files: dict[str, bytes] = {}
        if self.store_model:
            with TemporaryDirectory() as folder:
                self.bilm.save(Path(folder, MODEL_FOLDER))
                for file in Path(folder, MODEL_FOLDER).iterdir():
                    files[file.name] = file.read_bytes()
        stored: bytes = srsly.msgpack_dumps({"digest": self.bilm.digest(), "files": files})
        return stored

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "ElmoxComponent":
        """Read what `to_bytes` has returned."""
        stored: dict[str, Any] = srsly.msgpack_loads(data)
        self._expected_digest = stored["digest"]
        if stored["files"]:
            with TemporaryDirectory() as folder:
                for name, content in stored["files"].items():
                    Path(folder, Path(name).name).write_bytes(content)
                self.bilm.load(Path(folder))
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Leave the pipeline out, which a worker process does not have."""
        return self.__dict__ | {"_nlp": _no_pipeline}


def _no_pipeline() -> None:
    return None


@Language.factory(
    "elmox",
    assigns=["doc.tensor", "doc._.elmo_layers"],
    default_config={
        "model": None,
        "layers": "average",
        "sentences": "auto",
        "pooling": "mean",
        "batch_tokens": None,
        "store_layers": False,
        "store_model": False,
        "device": None,
        "dtype": "float32",
    },
)
def make_component(
    nlp: Language,
    name: str,
    model: str | None,
    layers: str | int,
    sentences: str,
    pooling: str,
    batch_tokens: int | None,
    store_layers: bool,
    store_model: bool,
    device: str | None,
    dtype: str,
) -> ElmoxComponent:
    """Make the component `elmox`; docs/integrations/spacy.md describes the options."""
    add_requirement(nlp)
    return ElmoxComponent(
        nlp,
        name,
        Bilm(model, device, dtype),
        layers,
        check_mode(sentences),
        check_pooling(pooling),
        batch_tokens,
        store_layers,
        store_model,
    )
