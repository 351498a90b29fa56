"""What `make demo` does: write a checkpoint, load it, embed a text, show shapes and speed.

Until a trained model comes with elmox, the checkpoint is random: the vectors have the right shapes
and arrive at the right speed, but they mean nothing.
"""

import tempfile
import time
from pathlib import Path

import torch

from elmox import Elmo, open_vectors
from elmox.bulk.embed import embed_file
from elmox.legacy.ai2 import write_ai2
from elmox.model.init import random_checkpoint
from elmox.text.sentences import split_sentences

TEXT = [
    "I will buy you a present.",
    "Live in the present, not in the past.",
    "Those present at the meeting didn't object.",
]


def main() -> None:
    """Run the demo in a temporary directory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("1. Writing a checkpoint of the small size in AI2's format.")
        print("   ITS WEIGHTS ARE RANDOM: shapes and speed are real, meaning there is none.")
        weights = folder / "weights.hdf5"
        write_ai2(random_checkpoint("small"), weights)
        print(f"   {weights.name}: {weights.stat().st_size / 2**20:.0f} MiB")

        elmo = Elmo.from_pretrained(weights)
        print(f"\n2. Loaded: {elmo.found}; {elmo.num_layers} layers of {elmo.dim} dimensions.")

        print("\n3. Embedding three sentences.")
        for text, vectors in zip(TEXT, elmo.encode_tokens(TEXT, layers="all"), strict=True):
            print(f"   {vectors.shape!s:<14} {' '.join(elmo.tokenize(text))}")
        print(f"   pooled         {elmo.encode(TEXT).shape}")

        print("\n4. Embedding a file, as `elmox embed` does.")
        source, output = folder / "text.txt", folder / "vectors.hdf5"
        source.write_text("\n".join(TEXT) + "\n", encoding="utf-8")
        embed_file(elmo, str(source), output, raw=True, dtype="float16")
        with open_vectors(output) as vectors:
            print(f"   {output.name}: {len(vectors)} entries, entry 1 is {vectors[1].shape}")

        print("\n5. Speed on Python's own documentation, word cache empty at the start.")
        sentences = _documentation(elmo, 400)
        num_tokens = sum(map(len, sentences))
        began = time.perf_counter()
        elmo.encode_tokens(sentences, layers="all")
        seconds = time.perf_counter() - began
        where = f"{elmo.device}, {torch.get_num_threads()} threads"
        print(
            f"   {num_tokens} tokens in {seconds:.1f} s on {where}: "
            f"{num_tokens / seconds:,.0f} tokens/s"
        )


def _documentation(elmo: Elmo, most: int) -> list[list[str]]:
    from pydoc_data.topics import topics

    text = "\n".join(topics.values())
    return [tokens for s in split_sentences(text) if (tokens := elmo.tokenize(s))][:most]


if __name__ == "__main__":
    main()
