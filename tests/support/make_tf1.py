"""Makes the TensorFlow checkpoints in tests/pretrained/tf1 with the code that made all others.

It runs once, in an environment of its own, because TensorFlow and elmox share no versions:

    pip download --no-deps bilm==0.1.post5
    pip install tensorflow-cpu==2.15.1        # Python 3.11
    python tests/support/make_tf1.py bilm-0.1.post5-py3-none-any.whl tests/pretrained/tf1

In the package `bilm` (bilm-tf, as its authors published it) only the line that imports TensorFlow
is changed. Its training code trains and saves; its own graphs compute what elmox must compute.
"""

import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

WORDS = ("<S>", "</S>", "<UNK>", "the", "cat", ".", "sat", "on", "mat", "a", "dog", "ran", "naïve")
SENTENCES = (("the", "cat", "sat", "."), ("a", "naïve", "dog", "ran", "on", "."), ("mat",))
BATCH, STEPS = 2, 5


def options(**other: Any) -> dict[str, Any]:
    """Options of a tiny model, as bilm-tf's training takes them."""
    lstm = {"cell_clip": 3, "proj_clip": 3, "use_skip_connections": True}
    lstm |= {"dim": 6, "projection_dim": 4, "n_layers": 2}
    tiny = {
        "bidirectional": True,
        "char_cnn": {
            "activation": "relu",
            "embedding": {"dim": 2},
            "filters": [[1, 3], [2, 4]],
            "max_characters_per_token": 10,
            "n_characters": 261,
            "n_highway": 1,
        },
        "dropout": 0.1,
        "lstm": lstm | other.pop("lstm", {}),
        "all_clip_norm_val": 10.0,
        "n_epochs": 1,
        "n_train_tokens": 1000,
        "batch_size": BATCH,
        "n_tokens_vocab": len(WORDS),
        "unroll_steps": STEPS,
        "n_negative_samples_batch": 5,
    }
    return {name: value for name, value in (tiny | other).items() if value is not None}


MODELS = {
    "characters": options(),
    # bilm-tf's own prediction code cannot read back what these two train.
    "words": options(char_cnn=None, share_embedding_softmax=True, lstm={"n_layers": 1, "dim": 4}),
    "forward": options(bidirectional=False, lstm={"use_skip_connections": False}),
}


def import_bilm(wheel: Path, folder: Path) -> None:
    """Unpack bilm-tf, change its imports of TensorFlow, make it importable."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    for file in (folder / "bilm").glob("*.py"):
        text = file.read_text("utf-8")
        new = text.replace("\nimport tensorflow as tf\n", "\nimport tensorflow.compat.v1 as tf\n")
        file.write_text(new, "utf-8")
    sys.path.insert(0, str(folder))


def train(name: str, out: Path, work: Path) -> None:
    """Train a model for 100 steps with two devices, and keep its last checkpoint."""
    import tensorflow.compat.v1 as tf
    from bilm.data import BidirectionalLMDataset, LMDataset
    from bilm.training import load_vocab
    from bilm.training import train as bilm_train

    out.mkdir()
    text, vocab_file = work / "text.txt", out / "vocab.txt"
    lines = [" ".join(sentence) for sentence in SENTENCES] * 50
    text.write_text("\n".join(lines) + "\n", "utf-8")
    vocab_file.write_text("".join(f"{word}\n" for word in WORDS), "utf-8")
    model = MODELS[name]
    characters = model.get("char_cnn", {}).get("max_characters_per_token")
    vocab = load_vocab(str(vocab_file), characters)
    dataset = BidirectionalLMDataset if model["bidirectional"] else LMDataset
    data = dataset(str(text), vocab, test=False, shuffle_on_load=True)
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        bilm_train(model, data, 2, str(out), str(work / "log"))
    for path in out.glob("*.meta"):
        path.unlink()


def ids(vocab: Any, words: Sequence[str]) -> Any:
    """Words as bilm-tf feeds them, a batch of one row."""
    if hasattr(vocab, "max_word_length"):
        return np.stack([vocab.word_to_char_ids(word) for word in words])[None]
    return np.array([[vocab.word_to_id(word) for word in words]])


def expected(folder: Path) -> dict[str, Any]:
    """Each sentence's token vectors, top layer and losses, by the graph that was trained."""
    import tensorflow.compat.v1 as tf
    from bilm.training import LanguageModel, load_options_latest_checkpoint, load_vocab

    model_options, checkpoint = load_options_latest_checkpoint(str(folder))
    characters = model_options.get("char_cnn", {}).get("max_characters_per_token")
    vocab = load_vocab(str(folder / "vocab.txt"), characters)
    results = {}
    for number, sentence in enumerate(SENTENCES):
        rows = [["<S>", *sentence], ["</S>", *reversed(sentence)]]
        targets = [[*sentence, "</S>"], [*reversed(sentence), "<S>"]]
        model_options |= {"batch_size": 1, "unroll_steps": len(sentence) + 1}
        with tf.Graph().as_default(), tf.Session() as session:
            with tf.variable_scope("lm"):
                model = LanguageModel(dict(model_options), False)
            tf.train.Saver().restore(session, checkpoint)
            kind = "tokens_characters" if characters else "token_ids"
            feed = {}
            for suffix, row, target in zip(("", "_reverse"), rows, targets, strict=True):
                if suffix and not model_options["bidirectional"]:
                    continue
                feed[getattr(model, kind + suffix)] = ids(vocab, row)
                next_ids = [[vocab.word_to_id(word) for word in target]]
                feed[getattr(model, f"next_token_id{suffix}")] = np.array(next_ids)
            tops = tf.get_collection("lstm_output_embeddings")
            tensors = [model.embedding, [tf.stack(top, axis=1) for top in tops]]
            embedding, outputs, losses = session.run([*tensors, model.individual_losses], feed)
        ahead, *behind = (output[0, 1:] for output in outputs)
        top = np.concatenate([ahead, *(output[::-1] for output in behind)], axis=-1)
        results[f"tokens_{number}"] = embedding[0, 1:]
        results[f"top_{number}"] = top
        results[f"losses_{number}"] = np.array(losses)
    return results


def save_again(folder: Path, out: Path, work: Path) -> None:
    """Save the graph that bilm-tf embeds with: its variables are TF-Hub's. Then in two shards."""
    import tensorflow.compat.v1 as tf
    from bilm.data import Batcher
    from bilm.model import BidirectionalLanguageModel
    from bilm.training import dump_weights, load_options_latest_checkpoint

    model_options, _ = load_options_latest_checkpoint(str(folder))
    model_options["char_cnn"]["n_characters"] = 262
    (work / "options.json").write_text(json.dumps(model_options))
    with tf.Graph().as_default():
        dump_weights(str(folder), str(work / "weights.hdf5"))
    config = tf.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
    batcher = Batcher(str(folder / "vocab.txt"), 10)
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        placed = iter(range(10**6))

        def device(node: Any) -> str:
            return f"/cpu:{next(placed) % 2}" if node.type.startswith("Variable") else ""

        with tf.device(device):
            characters = tf.placeholder("int32", (None, None, 10))
            model = BidirectionalLanguageModel(
                str(work / "options.json"), str(work / "weights.hdf5"), max_batch_size=1
            )
            layers = model(characters)["lm_embeddings"]
        session.run(tf.global_variables_initializer())
        variables = [v for v in tf.global_variables() if "lstm_state" not in v.name.lower()]
        variables = [v for v in variables if not v.name.startswith("bilm/Variable")]
        for name, sharded in (("module/variables/variables", False), ("shards/model.ckpt", True)):
            (out / name).parent.mkdir(parents=True)
            saver = tf.train.Saver(variables, sharded=sharded)
            saver.save(session, str(out / name), write_meta_graph=False, write_state=False)
        arrays = {}
        for number, sentence in enumerate(SENTENCES):
            session.run(tf.global_variables_initializer())  # bilm-tf carries its states on
            feed = {characters: batcher.batch_sentences([list(sentence)])}
            arrays[f"layers_{number}"] = session.run(layers, feed)[0]
    np.savez_compressed(out / "module" / "expected.npz", **arrays)
    shutil.copy(folder / "options.json", out / "shards" / "options.json")


def main() -> None:
    """Make everything."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    wheel, out = map(Path, sys.argv[1:])
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        import_bilm(wheel, work / "unpacked")
        import tensorflow.compat.v1 as tf

        tf.disable_v2_behavior()
        np.random.seed(1)  # noqa: NPY002  (bilm-tf shuffles by it)
        for name in MODELS:
            train(name, out / name, work)
            np.savez_compressed(out / name / "expected.npz", **expected(out / name))
        save_again(out / "characters", out, work)


if __name__ == "__main__":
    main()
