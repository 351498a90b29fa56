"""spaCy finds everything through entry points, in processes that never import elmox themselves."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from spacy_entry_points import installed_environment

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "spacy"
LIMIT = 120.0  # seconds that a program may take

WORKERS = """
import sys
import numpy as np
import spacy

nlp = spacy.blank("en")
nlp.add_pipe("elmox", config={"model": sys.argv[1], "store_layers": True})
texts = [f"I will buy you {number} presents." for number in range(30)] + ["", "Now"]
expected = [nlp(text) for text in texts]  # with several threads, before the fork
import torch
assert torch.get_num_threads() == 2
docs = list(nlp.pipe(texts, n_process=2, batch_size=4))
for doc, alone in zip(docs, expected, strict=True):
    np.testing.assert_allclose(doc.tensor, alone.tensor, rtol=0, atol=2e-6)
    assert doc._.elmo_layers.shape == alone._.elmo_layers.shape
    assert (doc.vector == doc.tensor.mean(0)).all() if len(doc) else True
print(len(docs))
"""

FACTORIES = """
import sys
import spacy

nlp = spacy.blank("en")
assert "elmox.elmo" not in sys.modules, "a pipeline without ELMo does not load the model code"
for name in ("elmox", "elmox_ner", "elmox_pos", "elmox_parser"):
    config = {} if name == "elmox" else {"model": "missing"}
    print(nlp.add_pipe(name, config=config).name)
print(spacy.registry.architectures.get("elmox.Tok2Vec.v1").__name__)
"""

PACKAGE = """
import sys
from pathlib import Path
import spacy
from spacy.cli.package import package

nlp = spacy.blank("en")
nlp.add_pipe("elmox", config={"model": sys.argv[1]})
nlp.to_disk("pipeline")
Path("out").mkdir()
package(Path("pipeline"), Path("out"), create_wheel=False, create_sdist=False, silent=True)
"""

TRAIN = """
import sys
import spacy
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin

vocab = spacy.blank("en").vocab
doc = Doc(vocab, ["Ada", "met", "Grace"], tags=["N", "V", "N"], heads=[1, 1, 1],
          deps=["nsubj", "ROOT", "obj"], ents=["B-PER", "O", "B-PER"])
DocBin(docs=[doc] * 40).to_disk("corpus.spacy")
train(sys.argv[1], "out", overrides={
    "paths.train": "corpus.spacy", "paths.dev": "corpus.spacy", "training.max_steps": 20,
    "training.eval_frequency": 10, "components.tok2vec.model.embed.model": sys.argv[2],
})
doc = spacy.load("out/model-best")("Ada met Grace")
print([token.tag_ for token in doc], [token.dep_ for token in doc], doc.ents)
"""


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return installed_environment(tmp_path_factory.mktemp("metadata"), OMP_NUM_THREADS="2")


def run(variables: dict[str, str], *arguments: object, folder: Path | None = None) -> str:
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(
        command,
        env=variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_nothing_has_to_be_imported(variables: dict[str, str]) -> None:
    lines = run(variables, "-c", FACTORIES).split()
    assert lines == ["elmox", "elmox_ner", "elmox_pos", "elmox_parser", "build_tok2vec"]


def test_workers_after_threads(variables: dict[str, str], tiny: Path) -> None:
    """They compute with one thread, where several would wait forever."""
    assert run(variables, "-c", WORKERS, tiny) == "32\n"


def test_a_package_requires_elmox(variables: dict[str, str], tiny: Path, tmp_path: Path) -> None:
    run(variables, "-c", PACKAGE, tiny, folder=tmp_path)
    (meta,) = (tmp_path / "out").glob("*/meta.json")
    requirements = json.loads(meta.read_text("utf-8"))["requirements"]
    assert [one.partition(">=")[0] for one in requirements].count("elmox") == 1


@pytest.mark.parametrize("name", ["tagger_parser.cfg", "ner.cfg"])
def test_example_configurations_train(
    name: str, variables: dict[str, str], tiny: Path, tmp_path: Path
) -> None:
    shown = run(variables, "-c", TRAIN, EXAMPLES / name, tiny, folder=tmp_path)
    if name == "ner.cfg":
        assert "(Ada, Grace)" in shown
    else:
        assert "['N', 'V', 'N'] ['nsubj', 'ROOT', 'obj']" in shown
