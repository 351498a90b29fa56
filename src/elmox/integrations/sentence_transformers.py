"""ELMo as the first module of a SentenceTransformer.

    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    elmo = Elmo(dropout=0.2)                                     # or Elmo("my-model"), ...
    model = SentenceTransformer(modules=[elmo, Pooling(elmo.get_embedding_dimension(), "mean")])
    model.encode(["I will buy you a present."])                  # (1, D)
    model.save_pretrained("my-encoder")                          # and load("my-encoder")

The module is an `ElmoEmbedding` of one mix: the biLM is frozen and the mix is learned, unless
`trainable=True`. Between tokenizer and model a word is a row of numbers, one per UTF-8 byte, as
trainers expect tensors; any model of elmox can read it, whatever its vocabulary.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from elmox.config import BUNDLED
from elmox.embedding import ElmoEmbedding, EmbeddingOptions
from elmox.errors import ElmoxError, require_at_least
from elmox.integrations.load_sentence_transformer import load_sentence_transformer
from elmox.integrations.packages import importing
from elmox.text.inputs import described

with importing("sentence-transformers", "sentence-transformers", "sentence_transformers"):
    from sentence_transformers.base.modules import InputModule

EMBEDDING_FOLDER = "embedding"
MAX_CHARACTERS = 1000  # of a word, as in a model's configuration; the rest would reach no model

load = load_sentence_transformer


class Elmo(InputModule):  # type: ignore[misc]  # sentence-transformers has no types that mypy reads
    """Sentences to `token_embeddings`, a learned mix of ELMo's layers.

    Args:
        model: anything that `ElmoEmbedding.from_pretrained` loads; None for the bundled English
            model.
        max_seq_length: tokens of a sentence that are read; None for all.
        **options: the other options of `ElmoEmbedding.from_pretrained`: `dropout`, `trainable`,
            `layers`, `normalize`, `dtype`, ...

    Attributes:
        embedding: the biLM and the mix.
    """

    config_keys = ["max_seq_length"]  # noqa: RUF012  (the base class declares it)
    save_in_root = False

    def __init__(
        self,
        model: str | Path | None = None,
        max_seq_length: int | None = None,
        dropout: float | None = None,
        **options: Unpack[EmbeddingOptions],
    ) -> None:
        require_at_least(1, "max_seq_length", max_seq_length)
        super().__init__()
        self.max_seq_length = max_seq_length
        options.setdefault("device", "cpu")  # SentenceTransformer moves its modules
        self.embedding = ElmoEmbedding.from_pretrained(model, dropout=dropout, **options)
        if self.embedding.scalar_mix.num_mixes != 1:
            raise ElmoxError(
                f"{model} has {self.embedding.scalar_mix.num_mixes} mixes: a sentence encoder "
                "needs one"
            )

    def preprocess(
        self,
        inputs: Sequence[str],
        prompt: str | None = None,
        max_length: int | None = None,
        **options: Any,
    ) -> dict[str, Tensor]:
        """Tokenize sentences.

        Args:
            inputs: B sentences.
            prompt: text that is put in front of each of them.
            max_length: replaces `max_seq_length` for this call.
            **options: ignored; other input modules have them.

        Returns:
            `input_ids`, (B, T, bytes) as in `spell_words`, and `attention_mask`, (B, T).
        """
        for row, text in enumerate(inputs):
            if not isinstance(text, str):
                raise ElmoxError(f"sentence {row} is {described(text)}: expected a string")
        limit = max_length or self.max_seq_length
        texts = [f"{prompt or ''}{text}" for text in inputs]
        sentences = [words[:limit] for words in self.embedding.elmo.tokens_of(texts)]
        ids, mask = spell_words(sentences)
        features = {"input_ids": ids, "attention_mask": mask}
        if prompt:  # so that Pooling can leave it out
            features["prompt_length"] = torch.tensor([len(self.embedding.elmo.tokenize(prompt))])
        return features

    def forward(self, features: dict[str, Any], **options: Any) -> dict[str, Any]:
        """Add `token_embeddings`, (B, T, D), to the features."""
        sentences = read_words(features["input_ids"], features["attention_mask"])
        vectors = self.embedding(sentences).mixes[0]
        missing = features["attention_mask"].shape[1] - vectors.shape[1]
        features["token_embeddings"] = F.pad(vectors, (0, 0, 0, missing))
        return features

    def get_embedding_dimension(self) -> int:
        """Return the width of a vector."""
        return self.embedding.dim

    def save(self, output_path: str, *args: Any, **options: Any) -> None:
        """Write the mix, and the biLM unless it is the frozen one that comes with elmox."""
        reference = self.embedding.elmo.reference
        is_bundled = reference is not None and reference.path == BUNDLED
        self.save_config(output_path)
        self.embedding.save_pretrained(
            Path(output_path, EMBEDDING_FOLDER), save_bilm=None if is_bundled else True, force=True
        )

    @classmethod
    def load(
        cls,
        model_name_or_path: str,
        subfolder: str = "",
        token: bool | str | None = None,
        cache_folder: str | None = None,
        revision: str | None = None,
        local_files_only: bool = False,
        **options: Any,
    ) -> Self:
        """Load what `save` wrote, from a directory or from the Hugging Face hub."""
        source: dict[str, Any] = {
            "subfolder": subfolder,
            "token": token,
            "cache_folder": cache_folder,
            "revision": revision,
            "local_files_only": local_files_only,
        }
        folder = cls.load_dir_path(model_name_or_path, **source)
        if folder is None:
            raise ElmoxError(f"{model_name_or_path} has no folder {subfolder}")
        return cls(Path(folder, EMBEDDING_FOLDER), **cls.load_config(model_name_or_path, **source))


def spell_words(sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
    """Return words as numbers, and a mask.

    Returns:
        (B, T, W) int16: each byte of a word in UTF-8 plus 1, then zeros; and (B, T) int64, 1 at
        words. T and W are at least 1.
    """
    rows = [
        [word[:MAX_CHARACTERS].encode("utf-8", "surrogatepass") for word in words]
        for words in sentences
    ]
    num_steps = max(map(len, rows), default=0) or 1
    lengths = [len(word) for row in rows for word in row]
    width = max(lengths, default=0) or 1
    ids = np.zeros((len(rows), num_steps, width), np.int16)
    mask = np.zeros((len(rows), num_steps), np.int64)
    for row, words in enumerate(rows):
        mask[row, : len(words)] = 1
        for step, word in enumerate(words):
            ids[row, step, : len(word)] = np.frombuffer(word, np.uint8).astype(np.int16) + 1
    return torch.from_numpy(ids), torch.from_numpy(mask)


def read_words(ids: Tensor, mask: Tensor) -> list[list[str]]:
    """Return the words of `spell_words`."""
    spelled: NDArray[np.int16] = ids.numpy(force=True)
    lengths = (spelled > 0).sum(-1)
    raw = (spelled - 1).astype(np.uint8)
    return [
        [
            raw[row, step, : lengths[row, step]].tobytes().decode("utf-8", "surrogatepass")
            for step in range(num_words)
        ]
        for row, num_words in enumerate(mask.sum(1).tolist())
    ]
