"""ELMo as a layer of another model (Peters et al. 2018, section 3.2-3.3).

    embed = ElmoEmbedding.from_pretrained("weights.hdf5", num_mixes=2, dropout=0.5)
    out = embed([["Live", "in", "the", "present"]])      # out.mixes (2, B, T, D), out.mask (B, T)
    embed.save_pretrained("my-embedding")                # and from_pretrained("my-embedding")

The biLM is frozen and only the mixes are learned, as in the paper; `trainable=True` fine-tunes it
with the task. A saved embedding is a directory:

    embedding.json     options, and which biLM it was made with
    mix.safetensors    gamma and the weights of the mixes
    elmo/              the biLM, if it is trainable or cannot be loaded from elsewhere
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self, TypedDict, Unpack, cast

import torch
from torch import Tensor, nn

from elmox.config import Strict, validated
from elmox.elmo import Elmo, LoadOptions
from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.inference.device import device_for
from elmox.inference.layers import pad_sentences, read_layers
from elmox.inference.text_encoder import StateMode
from elmox.io.checksums import verifying, write_checksums
from elmox.io.files import atomic_directory, read_json, refuse_existing, to_json
from elmox.io.tensors import read_tensors, write_tensors
from elmox.kernels.torch_modes import not_compiled
from elmox.model.layer_mix import LayerMix, MixLayers, Normalization
from elmox.pretrained.hub import Token
from elmox.pretrained.load import ModelReference
from elmox.pretrained.native import EMBEDDING_FILE
from elmox.text.inputs import Texts, text_list, warn_if_tokens

MODEL_TYPE = "elmox-embedding"
FORMAT = 1
MIX_FILE = "mix.safetensors"
ELMO_FOLDER = "elmo"


class MixOptions(TypedDict, total=False):
    """Options of `ElmoEmbedding` besides the biLM, the number of mixes and dropout."""

    trainable: bool
    keep_boundaries: bool
    layers: MixLayers
    mix_weights: Sequence[float] | None
    fixed_mix: bool
    normalize: Normalization | None


class EmbeddingOptions(MixOptions, LoadOptions, total=False):
    """Options of `ElmoEmbedding.from_pretrained`."""

    bilm: str | Path | None


@dataclass(frozen=True, repr=False)
class Mixed:
    """K mixes of a padded batch.

    Attributes:
        mixes: (K, B, T, D), zero at padding.
        mask: (B, T), true at tokens.
    """

    mixes: Tensor
    mask: Tensor

    def __repr__(self) -> str:
        """Return the shapes."""
        return f"Mixed(mixes={tuple(self.mixes.shape)}, mask={tuple(self.mask.shape)})"


@dataclass(frozen=True)
class StoredEmbedding(Strict):
    """The content of embedding.json.

    Attributes:
        digest: of the biLM; the mixes of one biLM mean nothing to another.
        bilm: where the biLM can be loaded from; None if it is in the directory.
        state: start state of every sentence.
    """

    num_mixes: int
    dropout: float
    trainable: bool
    keep_boundaries: bool
    layers: MixLayers
    fixed_mix: bool
    normalize: Normalization | None
    state: StateMode
    digest: str
    bilm: ModelReference | None


class ElmoEmbedding(nn.Module):
    """Sentences to K mixes of ELMo's layers, from one biLM pass.

    Args:
        elmo: the pretrained model. Its start state (zero or warm) is used for every sentence.
        num_mixes: K, one for each place in your model where ELMo goes in.
        dropout: probability with which a number of the mixed vectors is dropped in training.
        trainable: fine-tune the biLM with the task; frozen by default.
        keep_boundaries: keep the vectors of the two boundary tokens of each sentence.
        layers: "mix", "top" or a layer's index; see `LayerMix`.
        mix_weights: w to start from; None for zeros, the plain average.
        fixed_mix: do not learn w (gamma is still learned).
        normalize: normalize every layer before mixing, over the "batch" or per "token"; see
            `LayerMix`.
    """

    @torch.inference_mode(False)
    def __init__(
        self,
        elmo: Elmo,
        num_mixes: int = 1,
        dropout: float = 0.0,
        *,
        trainable: bool = False,
        keep_boundaries: bool = False,
        layers: MixLayers = "mix",
        mix_weights: Sequence[float] | None = None,
        fixed_mix: bool = False,
        normalize: Normalization | None = None,
    ) -> None:
        super().__init__()
        self.elmo = elmo
        self.keep_boundaries = keep_boundaries
        self.trainable = trainable
        self.bilm = elmo.reader.bilm.requires_grad_(trainable)
        self.scalar_mix = LayerMix(
            elmo.num_layers,
            num_mixes,
            layers=layers,
            weights=mix_weights,
            trainable=not fixed_mix,
            normalize=normalize,
            dropout=dropout,
        ).to(elmo.device)

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path | None = None,
        num_mixes: int | None = None,
        dropout: float | None = None,
        **options: Unpack[EmbeddingOptions],
    ) -> Self:
        """Put new mixes on a pretrained biLM, or load what `save_pretrained` saved.

        Args:
            path: anything that `Elmo.from_pretrained` loads, or a saved embedding. A saved
                embedding has its own options. Only `dropout`, `trainable`, `keep_boundaries`,
                `device`, `dtype` and `token` may be given with it, and `bilm`.
            num_mixes: K; 1 by default.
            dropout: 0 by default.
            **options: the other options of this class and of `Elmo.from_pretrained`. `bilm` is the
                path of a saved embedding's biLM, if it has moved.
        """
        if path is not None and is_embedding(Path(path)):
            return cls._load(Path(path), num_mixes, dropout, options)
        if options.pop("bilm", None) is not None:
            raise ArgumentError(
                "{} belongs to a saved embedding, which {} is not: leave it out",
                Argument("bilm"),
                path,
            )
        loading = {name: value for name, value in options.items() if name in _LOAD_OPTIONS}
        mixing = {name: value for name, value in options.items() if name not in _LOAD_OPTIONS}
        return cls(
            Elmo.from_pretrained(path, **cast(LoadOptions, loading)),
            1 if num_mixes is None else num_mixes,
            0.0 if dropout is None else dropout,
            **cast(MixOptions, mixing),
        )

    def save_pretrained(
        self, path: str | Path, *, save_bilm: bool | None = None, force: bool = False
    ) -> None:
        """Write a directory that `from_pretrained` reads.

        Args:
            path: the directory to make; it appears whole or not at all.
            save_bilm: write the biLM into it. False stores only a reference: where it was loaded
                from, and its digest. None does so if the biLM is frozen and the same weights can
                still be loaded from there.
            force: replace an existing embedding.
        """
        folder = Path(path)
        refuse_existing(folder, force)
        if folder.is_dir() and any(folder.iterdir()) and not is_embedding(folder):
            raise ElmoxError(f"{folder} contains other things than an embedding: choose another")
        stored = None if save_bilm or (save_bilm is None and self.trainable) else self._unchanged()
        if stored is None and save_bilm is False:
            raise ArgumentError(
                "{}: the weights of {} cannot be loaded again, they have changed or were not "
                "loaded from a file: leave it out",
                Argument("save_bilm", False),
                self.elmo,
            )
        digest = (stored or self.elmo).digest()
        settings = self._settings(digest, None if stored is None else stored.reference)
        with atomic_directory(folder) as new:
            contents = {"model_type": MODEL_TYPE, "format": FORMAT, **asdict(settings)}
            (new / EMBEDDING_FILE).write_bytes(to_json(contents))
            write_tensors(self.scalar_mix.state_dict(), new / MIX_FILE)
            write_checksums(new)
            if stored is None:
                self.elmo.save_pretrained(new / ELMO_FOLDER)

    @property
    def dim(self) -> int:
        """Width of a vector."""
        return self.elmo.dim

    @not_compiled
    def forward(self, sentences: Texts) -> Mixed:
        """Mix the layers of a batch of sentences (strings, or lists of tokens)."""
        texts = text_list(sentences)
        warn_if_tokens(texts, stacklevel=6)  # below torch's two frames and `not_compiled`
        tokens = self.elmo.tokens_of(texts)
        state = self.elmo.start_state(len(tokens))
        with_gradients = self.trainable and torch.is_grad_enabled()
        ragged = read_layers(self.elmo.reader, tokens, state, with_gradients)
        mixed = self.scalar_mix(ragged.values)  # (K, N, D)
        return Mixed(*pad_sentences(mixed, ragged.lengths, keep_boundaries=self.keep_boundaries))

    def mix_penalty(self, lambda_: float) -> Tensor:
        """Return lambda * ||w||^2, to add to the task's loss."""
        return self.scalar_mix.penalty(lambda_)

    def __repr__(self) -> str:
        """Return the biLM, the mixes and the options."""
        options = f"trainable={self.trainable}, keep_boundaries={self.keep_boundaries}"
        return f"ElmoEmbedding(\n  {self.elmo!r},\n  {self.scalar_mix!r},\n  {options}\n)"

    def _settings(self, digest: str, bilm: ModelReference | None) -> StoredEmbedding:
        mix = self.scalar_mix
        return StoredEmbedding(
            num_mixes=mix.num_mixes,
            dropout=mix.dropout,
            trainable=self.trainable,
            keep_boundaries=self.keep_boundaries,
            layers=mix.layers,
            fixed_mix=mix.weights is not None and not mix.weights.requires_grad,
            normalize=mix.normalize,
            state=self.elmo.state,
            digest=digest,
            bilm=bilm,
        )

    def _unchanged(self) -> Elmo | None:
        """Load the biLM again; None if that fails or its weights and state are not the same."""
        reference = self.elmo.reference
        if reference is None:
            return None
        try:
            stored = _load_reference(reference, self.elmo.state)
        except ElmoxError:
            return None
        current, loaded = _tensors(self.elmo), _tensors(stored)
        is_same = self.elmo.config == stored.config and all(
            torch.equal(tensor.cpu(), loaded[name].to(tensor.dtype))
            for name, tensor in current.items()
        )
        return stored if is_same else None

    @classmethod
    def _load(
        cls,
        folder: Path,
        num_mixes: int | None,
        dropout: float | None,
        options: EmbeddingOptions,
    ) -> Self:
        refused = sorted(options.keys() - _REPLACEABLE)
        if num_mixes is not None:
            refused.insert(0, "num_mixes")
        if refused:
            raise ArgumentError(
                "{} is a saved embedding with options of its own: leave out {}",
                folder,
                Argument(refused[0]),
            )
        stored, tensors = _read(folder)
        elmo, dtype = _load_bilm(folder, stored, options), options.get("dtype", "float32")
        embedding = cls(
            elmo.to(device_for(dtype, options.get("device")), dtype),
            stored.num_mixes,
            stored.dropout if dropout is None else dropout,
            trainable=options.get("trainable", stored.trainable),
            keep_boundaries=options.get("keep_boundaries", stored.keep_boundaries),
            layers=stored.layers,
            fixed_mix=stored.fixed_mix,
            normalize=stored.normalize,
        )
        expected = embedding.scalar_mix.state_dict()
        for name in sorted(expected.keys() | tensors.keys()):
            shapes = [part[name].shape if name in part else None for part in (tensors, expected)]
            if shapes[0] != shapes[1]:
                raise ElmoxError(f"{folder / MIX_FILE}: {name} is missing or of another shape")
            if not tensors[name].isfinite().all():
                raise ElmoxError(f"{folder / MIX_FILE}: {name} contains NaN or infinite values")
        embedding.scalar_mix.load_state_dict(tensors)
        return embedding


_LOAD_OPTIONS = LoadOptions.__annotations__.keys()
_REPLACEABLE = {"trainable", "keep_boundaries", "device", "dtype", "token", "bilm"}


def is_embedding(path: Path) -> bool:
    """Return whether this looks like a directory that `ElmoEmbedding.save_pretrained` made."""
    return (path / EMBEDDING_FILE).is_file()


def _read(folder: Path) -> tuple[StoredEmbedding, dict[str, Tensor]]:
    """Read the options and the mixes of a saved embedding, and check that they can be real."""
    with verifying(folder, (EMBEDDING_FILE, MIX_FILE)):
        return _read_unverified(folder)


def _read_unverified(folder: Path) -> tuple[StoredEmbedding, dict[str, Tensor]]:
    path = folder / EMBEDDING_FILE
    settings = read_json(path)
    if settings.pop("model_type", None) != MODEL_TYPE:
        raise ElmoxError(f"{path} is not an embedding's: expected model_type {MODEL_TYPE!r}")
    if (number := settings.pop("format", None)) != FORMAT or number is True:
        raise ElmoxError(f"{path} has format {number!r}, this elmox reads {FORMAT}: upgrade elmox")
    stored = validated(StoredEmbedding, settings, str(path))
    tensors = read_tensors(folder / MIX_FILE)
    if "gamma" not in tensors or tensors["gamma"].shape != (stored.num_mixes,):
        raise ElmoxError(f"{folder / MIX_FILE} does not have {stored.num_mixes} mixes as {path}")
    return stored, tensors


def _load_bilm(folder: Path, stored: StoredEmbedding, options: EmbeddingOptions) -> Elmo:
    """Load the biLM of a saved embedding, and check that it is the same."""
    moved, reference = options.get("bilm"), stored.bilm
    if reference is None and moved is not None:
        raise ArgumentError("{} contains its biLM: leave out {}", folder, Argument("bilm"))
    if reference is None:
        source: str | Path = folder / ELMO_FOLDER
        elmo = Elmo.from_pretrained(source, state=stored.state, device="cpu")
    elif moved is not None:
        source = moved
        elmo = Elmo.from_pretrained(
            moved, state=stored.state, device="cpu", token=options.get("token")
        )
    else:
        source = reference.path
        try:
            elmo = _load_reference(reference, stored.state, options.get("token"))
        except ElmoxError as error:
            raise ArgumentError(
                "{} was saved with the biLM {}, which cannot be loaded; give its new path with {}: "
                "{}",
                folder,
                source,
                Argument("bilm", "PATH"),
                error,
            ) from error
    if elmo.digest() != stored.digest:
        raise ArgumentError(
            "{} was saved with another biLM than {}: give the one it was saved with, with {}",
            folder,
            source,
            Argument("bilm", "PATH"),
        )
    return elmo


def _tensors(elmo: Elmo) -> dict[str, Tensor]:
    """Return everything that vectors depend on: the weights, and the state unless it is zero."""
    checkpoint = elmo.checkpoint()
    tensors = dict(checkpoint.tensors)
    if elmo.state == "warm" and checkpoint.warm_state is not None:
        tensors |= {"hidden": checkpoint.warm_state.hidden, "cell": checkpoint.warm_state.cell}
    return tensors


def _load_reference(reference: ModelReference, state: StateMode, token: Token = None) -> Elmo:
    return Elmo.from_pretrained(
        reference.path,
        options=reference.options,
        vocab=reference.vocab,
        token_embeddings=reference.token_embeddings,
        revision=reference.revision,
        token=token,
        state=state,
        device="cpu",
    )
