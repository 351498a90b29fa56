"""The files that the examples of the docs and of `--help` speak of: tiny models and texts."""

from pathlib import Path

import numpy as np
from checkpoints import (
    random_options,
    write_ai2,
    write_allennlp_archive,
    write_many_langs,
    write_nlpl_zip,
    write_token_file,
    write_word_model,
)
from checkpoints_tf1 import copy_tf1
from language_models import tiny_lm
from sense_data import write_sense_data
from tagged_files import NAMES, write_columns
from treebank_data import write_treebank

ROOT = Path(__file__).resolve().parents[2]
TEXT = "I will buy you a present .\n\nLive in the present . Do n't look back .\nNow\n"
JSON_LINES = """\
{"id": 7, "tokens": ["Live", "in", "the", "present"]}
{"text": "I will buy you a present. Don't look!"}

"""


def write_example_files(folder: Path) -> None:
    """Write one tiny random model in every format, and texts."""
    options = random_options()

    def rng() -> np.random.Generator:
        return np.random.default_rng(0)

    write_ai2(folder, options, rng())
    write_token_file(folder, options["lstm"]["projection_dim"], rng())
    write_word_model(folder / "word-model", options, rng())
    write_nlpl_zip(folder, options, rng()).rename(folder / "nlpl.zip")
    archive = write_allennlp_archive(
        folder / "allennlp", options, rng(), num_mixes=2, options_at="archive"
    )
    archive.rename(folder / "model.tar.gz")
    write_many_langs(folder / "manylangs", "word_char", rng())
    copy_tf1(folder / "run", "characters")
    copy_tf1(folder / "tfhub-elmo", "module")
    lm = tiny_lm(folder / "lm")
    lm.elmo().save_pretrained(folder / "trained-model")
    lm.softmax.rename(folder / "softmax_weights.hdf5")
    lm.vocab.rename(folder / "softmax_vocab.txt")
    write_treebank(folder)
    write_sense_data(folder)
    write_columns(folder / "names.txt", NAMES)
    (folder / "text.txt").write_text(TEXT, "utf-8")
    (folder / "sentences.txt").write_text("Live in the present .\nNow\n", "utf-8")
    (folder / "domain.txt").write_text(f"{TEXT}\n" * 4, "utf-8")
    (folder / "lines.jsonl").write_text(JSON_LINES, "utf-8")
