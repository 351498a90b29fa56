"""AllenNLP's names for ELMo, so that an old script runs after changing its import line.

    from elmox.integrations.allennlp import Elmo, ElmoEmbedder, batch_to_ids

`ElmoEmbedder` is that of AllenNLP 0.9, the others are those of 2.10 (0.9 had the same). Arguments,
shapes and values are theirs, also where they surprise: LSTM state is carried from call to call, row
by row, in training and in evaluation. `stateful=False` turns that off; `reset_states()` forgets it.

Differences on purpose:

- Weights and options are local files; AllenNLP downloaded AI2's.
- Users' mistakes raise `ElmoxError`.
- Models without skip connections, or with more or fewer than 50 character slots, work too.
- An empty sentence has vectors of shape (L+1, 0, D) in float32, whatever the model.
- Padding is zero also under `do_layer_norm` with `keep_sentence_boundaries`.
- `vocab_to_cache` with `requires_grad=True` is refused.
- `embed_file` leaves no half-written file and shows no progress bar.

Shapes: B sentences of T tokens at most, L LSTM layers, D the width of a vector.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, TypeAlias

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmox import elmo as elmox_elmo
from elmox.errors import ElmoxError, require_at_least
from elmox.inference.stateful import StatefulElmo
from elmox.integrations.allennlp_ids import batch_to_ids
from elmox.integrations.allennlp_module import Elmo, ElmoTokenEmbedder, File, load_files
from elmox.io.files import atomic_write
from elmox.io.hdf5 import creating_hdf5

__all__ = ["DEFAULT_BATCH_SIZE", "Elmo", "ElmoEmbedder", "ElmoTokenEmbedder", "batch_to_ids"]

Vectors: TypeAlias = NDArray[np.float32]

DEFAULT_BATCH_SIZE = 64
OUTPUT_FORMATS: dict[str, Callable[[Vectors], Vectors]] = {
    "all": lambda layers: layers,
    "top": lambda layers: layers[-1],
    "average": lambda layers: layers.mean(0),
}


class ElmoEmbedder:
    """Tokenized sentences to NumPy arrays of all layers.

    As in AllenNLP, a string in place of a list of tokens is a list of its characters.

    Args:
        options_file: the options file; None to look for it next to the weights.
        weight_file: AI2's weights.hdf5, or anything else that `elmox.Elmo.from_pretrained` reads.
        cuda_device: the index of a GPU; -1 for the CPU.
        stateful: start row i where row i of the last batch ended, as AllenNLP did.
    """

    def __init__(
        self,
        options_file: File | None = None,
        weight_file: File | None = None,
        cuda_device: int = -1,
        *,
        stateful: bool = True,
    ) -> None:
        self.cuda_device = cuda_device
        device = f"cuda:{cuda_device}" if cuda_device >= 0 else "cpu"
        checkpoint = load_files(options_file, weight_file)
        self.elmo = elmox_elmo.Elmo(checkpoint, str(weight_file)).to(device)
        self._carried = self.elmo.stateful() if stateful else None

    def reset_states(self) -> None:
        """Forget what was read: every row starts afresh at the next call."""
        if self._carried is not None:
            self._carried.reset()

    def embed_sentence(self, sentence: Sequence[str]) -> Vectors:
        """Return all layers of a sentence, (L+1, T, D): the token layer, then the LSTMs'."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[Vectors]:
        """Return (L+1, T, D) for each sentence, T being its length."""
        sentences = [list(sentence) for sentence in batch]
        return self._encoder(sentences).encode_tokens(sentences, layers="all")

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = DEFAULT_BATCH_SIZE
    ) -> Iterator[Vectors]:
        """Yield what `embed_batch` returns, `batch_size` sentences at a time, in order."""
        require_at_least(1, "batch_size", batch_size)
        waiting = iter(sentences)
        while batch := list(islice(waiting, batch_size)):
            yield from self.embed_batch(batch)

    def batch_to_embeddings(self, batch: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Return padded tensors on the model's device: (B, L+1, T, D), mask (B, T) in int64."""
        sentences = [list(sentence) for sentence in batch]
        encoder = self._encoder(sentences)
        vectors = encoder.encode_tokens(sentences, layers="all", convert_to_tensor=True)
        if not vectors:
            raise ElmoxError("batch_to_embeddings: no sentence given, expected at least one")
        layers = pad_sequence([each.transpose(0, 1) for each in vectors], batch_first=True)
        ones = [
            torch.ones(each.shape[1], dtype=torch.int64, device=each.device) for each in vectors
        ]
        return layers.transpose(1, 2).contiguous(), pad_sequence(ones, batch_first=True)

    def embed_file(
        self,
        input_file: IO[str],
        output_file_path: File,
        output_format: str = "all",
        batch_size: int = DEFAULT_BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Embed a file of sentences, one per line, tokens separated by white space, into HDF5.

        Args:
            input_file: an open text file; closed at the end.
            output_file_path: replaced if it exists, when everything is written.
            output_format: "all" (L+1, T, D), "top" (T, D) or "average" (T, D).
            batch_size: sentences read at a time.
            forget_sentences: leave out `sentence_to_index`, JSON that maps lines to their keys.
            use_sentence_keys: use the lines as keys, not their numbers "0", "1", ..., and write no
                `sentence_to_index`. A slash in a line makes a group.
        """
        if output_format not in OUTPUT_FORMATS:
            raise ElmoxError(f"output_format={output_format!r}: expected all, top or average")
        form = OUTPUT_FORMATS[output_format]
        lines = [line.strip() for line in input_file]
        blank = [number for number, line in enumerate(lines) if not line]
        if blank:
            raise ElmoxError(f"blank lines at indexes {blank}, counted from 0: remove them")
        if use_sentence_keys and len(set(lines)) < len(lines):
            line, times = Counter(lines).most_common(1)[0]
            raise ElmoxError(f"use_sentence_keys: {line!r} occurs {times} times: use line numbers")
        keys = lines if use_sentence_keys else [str(number) for number in range(len(lines))]
        vectors = self.embed_sentences((line.split() for line in lines), batch_size)
        with atomic_write(Path(output_file_path)) as temporary, creating_hdf5(temporary) as hdf5:
            for key, layers in zip(keys, vectors, strict=True):
                try:
                    hdf5.file.create_dataset(key, data=form(layers))
                except (TypeError, ValueError) as error:
                    raise ElmoxError(f"{key!r} cannot be a key of an HDF5 file: {error}") from error
                hdf5.check()
            if not (forget_sentences or use_sentence_keys):
                index = json.dumps(dict(zip(lines, keys, strict=True)))
                strings = h5py.string_dtype()
                hdf5.file.create_dataset("sentence_to_index", data=[index], dtype=strings)
        input_file.close()

    def _encoder(self, sentences: Sequence[Sequence[str]]) -> elmox_elmo.Elmo | StatefulElmo:
        """Return the encoder for these sentences.

        AllenNLP did not read a lone empty sentence; among others it read its two boundaries.
        """
        return self.elmo if self._carried is None or sentences == [[]] else self._carried
