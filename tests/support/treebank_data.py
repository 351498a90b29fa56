"""Tiny treebanks in CoNLL-U, written by the tests that read them."""

import random
from collections.abc import Sequence
from pathlib import Path

TAGS = {"cat": "NN", "dog": "NN", "sat": "VBD", "ran": "VBD", "the": "DT", "a": "DT"}


def conllu(words: Sequence[str], tags: Sequence[str]) -> str:
    """Return a sentence in which all words depend on the first one."""
    lines = [f"# text = {' '.join(words)}"]
    for number, (word, tag) in enumerate(zip(words, tags, strict=True), start=1):
        head, relation = (0, "root") if number == 1 else (1, "dep")
        lines.append(f"{number}\t{word}\t{word}\t{tag[0]}\t{tag}\t_\t{head}\t{relation}\t_\t_")
    return "\n".join(lines) + "\n\n"


def write_treebank(folder: Path, num_sentences: int = 40) -> dict[str, Path]:
    """Write train.conllu, dev.conllu and test.conllu, in which a word always has the same tag."""
    rng = random.Random(0)
    paths = {}
    for part in ("train", "dev", "test"):
        sentences = [rng.choices(list(TAGS), k=rng.randint(2, 6)) for _ in range(num_sentences)]
        paths[part] = folder / f"{part}.conllu"
        text = "".join(conllu(words, [TAGS[word] for word in words]) for words in sentences)
        paths[part].write_text(text, "utf-8")
    return paths
