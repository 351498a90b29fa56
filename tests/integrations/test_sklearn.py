"""ELMo as a scikit-learn transformer: the vectors of `Elmo`, and the rules of scikit-learn."""

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmox import Elmo, ElmoxError
from elmox.inference.layer_choice import Layers
from elmox.inference.outputs import Pooling

pytest.importorskip("sklearn")

import pandas as pd
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted, validate_data

from elmox.integrations.shared_models import MAX_MODELS, shared_models
from elmox.integrations.sklearn import (
    ElmoTokenVectorizer,
    ElmoVectorizer,
    clear_cache,
    token_rows,
)

SENTENCES = ["I will buy you a present.", ["Live", "in", "the", "present"], "", "Don't look back."]
TOKENS = [["Live", "in", "the", "present"], ["Now"], ["Do", "n't", "look", "back", "."]]
TOLERANCE = 1e-6  # the sum over layers and the mean over tokens change places
CHOICES: list[Layers] = ["average", "top", "all", 1, [0, 2]]


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    clear_cache()
    yield
    clear_cache()


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of sentences of every call that reaches the biLM."""
    sizes: list[int] = []
    original = Elmo.tokens_of

    def counted(self: Elmo, sentences: Any) -> Any:
        tokens = original(self, sentences)
        sizes.append(len(tokens))
        return tokens

    monkeypatch.setattr(Elmo, "tokens_of", counted)
    return sizes


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("layers", CHOICES)
@pytest.mark.parametrize("normalized", [False, True])
def test_features_are_the_vectors_of_encode(
    tiny: Path, layers: Layers, pooling: Pooling, normalized: bool
) -> None:
    vectorizer = ElmoVectorizer(
        tiny, layers=layers, pooling=pooling, normalize_embeddings=normalized
    )
    features = vectorizer.fit_transform(SENTENCES)
    vectors = Elmo.from_pretrained(tiny).encode(
        SENTENCES, layers=layers, pooling=pooling, normalize_embeddings=normalized
    )
    np.testing.assert_allclose(features, vectors.reshape(len(SENTENCES), -1), atol=TOLERANCE)
    assert len(vectorizer.get_feature_names_out()) == features.shape[1]


@pytest.mark.parametrize("layers", CHOICES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_features_of_words_are_the_vectors_of_encode_tokens(
    tiny: Path, layers: Layers, dtype: str
) -> None:
    rows = token_rows(TOKENS)
    assert len(rows) == sum(map(len, TOKENS))
    features = ElmoTokenVectorizer(tiny, layers=layers, dtype=dtype).fit_transform(rows[::-1])
    elmo = Elmo.from_pretrained(tiny, dtype=dtype)
    vectors = [v.reshape(-1, *v.shape[-2:]) for v in elmo.encode_tokens(TOKENS, layers=layers)]
    words = np.concatenate(vectors, axis=1).transpose(1, 0, 2).reshape(len(rows), -1)
    np.testing.assert_allclose(features[::-1], words, atol=TOLERANCE)


def test_half_precision_is_rounded_as_in_encode(tiny: Path) -> None:
    features = ElmoVectorizer(tiny, dtype="bfloat16").fit_transform(SENTENCES)
    vectors = Elmo.from_pretrained(tiny, dtype="bfloat16").encode(SENTENCES)
    np.testing.assert_allclose(features, vectors, atol=TOLERANCE)


class RowsAsText(ElmoVectorizer):
    """Rows of numbers spelled as sentences, because the checks of scikit-learn have no text."""

    def fit(self, X: Any, y: Any = None) -> "RowsAsText":
        validate_data(self, X)
        return self

    def _rows(self, X: Any) -> list[Any]:
        check_is_fitted(self)
        return [" ".join(map(str, row)) for row in validate_data(self, X, reset=False)]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = False
        tags.input_tags.two_d_array = True
        tags.requires_fit = True
        return tags


def test_the_checks_of_scikit_learn_pass(tiny: Path) -> None:
    """No check is expected to fail. Those it skips need what ELMo does not have."""
    results = check_estimator(RowsAsText(tiny), on_skip=None, on_fail=None)
    status = {result["check_name"]: result["status"] for result in results}
    assert "failed" not in status.values(), status
    assert len(results) > 40
    skipped = {name for name, outcome in status.items() if outcome != "passed"}
    assert skipped <= {"check_array_api_input"}, skipped  # text is no array of another library


@pytest.mark.parametrize("kind", [ElmoVectorizer, ElmoTokenVectorizer])
def test_the_checks_for_text_pass(kind: type[ElmoVectorizer]) -> None:
    """scikit-learn runs no other check on an estimator whose input is text."""
    with pytest.warns(UserWarning, match="Can't test estimator"):
        results = check_estimator(kind(), on_skip=None)
    assert [result["status"] for result in results] == ["passed"]


def test_parameters_clone_and_pickle(tiny: Path) -> None:
    vectorizer = ElmoVectorizer(tiny, layers=[0, 2], pooling="max").fit(SENTENCES)
    copies = [clone(vectorizer), pickle.loads(pickle.dumps(vectorizer))]
    assert len(pickle.dumps(vectorizer)) < 2000
    for copy in copies:
        assert copy.get_params() == vectorizer.get_params()
        np.testing.assert_array_equal(copy.transform(SENTENCES), vectorizer.transform(SENTENCES))
    assert (
        copies[0].set_params(layers="top").fit_transform(SENTENCES).shape[1] * 2
        == (vectorizer.transform(SENTENCES).shape[1])
    )


def test_tables_in_and_out(tiny: Path) -> None:
    table = pd.DataFrame({"text": SENTENCES[2:], "word": [1, 2]}, index=["a", "b"])
    features = ElmoVectorizer(tiny).fit_transform(table["text"])
    for column in (table[["text"]], table[["text"]].to_numpy(), table["text"].to_numpy()):
        np.testing.assert_array_equal(ElmoVectorizer(tiny).fit_transform(column), features)
    vectorizer = ElmoVectorizer(tiny).set_output(transform="pandas")
    output = vectorizer.fit_transform(table[["text"]])
    assert list(output.index) == ["a", "b"]
    assert list(output.columns[:2]) == ["elmovectorizer0", "elmovectorizer1"]
    columns = ColumnTransformer([("text", vectorizer, ["text"]), ("rest", "passthrough", ["word"])])
    np.testing.assert_array_equal(columns.fit_transform(table)[:, :-1], features)
    pairs = table.iloc[1:]
    word = ElmoTokenVectorizer(tiny).fit_transform(pairs)
    np.testing.assert_array_equal(
        word, ElmoTokenVectorizer(tiny).fit_transform([("Don't look back.", 2)])
    )


def labeled() -> tuple[list[str], list[int]]:
    good = [f"a good film number {i}" for i in range(8)]
    bad = [f"what a bad film {i}" for i in range(8)]
    return good + bad, [1] * 8 + [0] * 8


def test_a_search_over_layers_encodes_each_text_once(tiny: Path, encoded: list[int]) -> None:
    texts, labels = labeled()
    pipeline = make_pipeline(ElmoVectorizer(tiny), LogisticRegression(C=1e4))
    grid = {
        "elmovectorizer__layers": ["average", "top", 0, 1],
        "elmovectorizer__normalize_embeddings": [False, True],
    }
    search = GridSearchCV(pipeline, grid, cv=4, error_score="raise").fit(texts, labels)
    assert sum(encoded) == len(texts)
    assert search.best_score_ > 0.9
    assert search.predict(["a good film number 3"]).tolist() == [1]


def test_without_memory_each_call_encodes(tiny: Path, encoded: list[int]) -> None:
    vectorizer = ElmoVectorizer(tiny, cache_megabytes=0)
    first = vectorizer.fit_transform(["one text", "another", "one text"])
    np.testing.assert_allclose(vectorizer.transform(["one text"])[0], first[0], atol=TOLERANCE)
    np.testing.assert_array_equal(first[0], first[2])
    assert encoded == [2, 1]
    assert shared_models().get(tiny, None, "float32").num_bytes == 0


def test_memory_is_bounded_and_the_oldest_text_goes_first(tiny: Path, encoded: list[int]) -> None:
    shared = shared_models().get(tiny, None, "float32")
    vectors = np.zeros(250_000, np.float32)  # 1 MB

    def ask(*keys: str) -> int:
        computed: list[int] = []

        def compute(indexes: list[int]) -> list[Any]:
            computed.extend(indexes)
            return [vectors for _ in indexes]

        assert len(shared.vectors(keys, compute, max_bytes=3_000_000)) == len(keys)
        assert shared.num_bytes <= 3_000_000
        return len(computed)

    assert ask("a", "b", "c") == 3
    assert ask("a") == 0
    assert ask("d") == 1  # b goes
    assert ask("a", "c", "d") == 0
    assert ask("b") == 1
    assert ask("e", "f", "g", "h", "e") == 4  # more than fits


def test_workers_give_the_same_result(tiny: Path) -> None:
    texts, labels = labeled()
    pipeline = make_pipeline(ElmoVectorizer(tiny), LogisticRegression())
    one = cross_val_score(pipeline, texts, labels, cv=2)
    two = cross_val_score(pipeline, texts, labels, cv=2, n_jobs=2)
    np.testing.assert_array_equal(one, two)


def test_words_in_a_pipeline_with_folds_by_sentence(tiny: Path, encoded: list[int]) -> None:
    sentences = [["the", "cat", "sat", str(i)] for i in range(6)]
    labels = [0, 1, 0, 0] * 6
    groups = [i for i, sentence in enumerate(sentences) for _ in sentence]
    pipeline = make_pipeline(ElmoTokenVectorizer(tiny), LogisticRegression(C=1e4))
    rows = token_rows(sentences)
    scores = cross_val_score(pipeline, rows, labels, groups=groups, cv=GroupKFold(3))
    assert scores.mean() > 0.95
    assert sum(encoded) / 2 == len(sentences)  # tokens are checked twice on the way


def test_a_replaced_model_is_loaded_again(tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    elmo = Elmo.from_pretrained(tiny)
    elmo.save_pretrained(folder)
    vectorizer = ElmoVectorizer(folder)
    before = vectorizer.fit_transform(SENTENCES)
    for parameter in elmo.reader.bilm.parameters():
        parameter.data.mul_(0.5)
    elmo.save_pretrained(folder, force=True)
    after = vectorizer.transform(SENTENCES)
    assert np.abs(after - before).max() > 1e-4
    np.testing.assert_allclose(after, elmo.encode(SENTENCES), atol=TOLERANCE)


def test_few_models_are_held(tiny: Path) -> None:
    for dtype in ("float32", "bfloat16", "float16"):
        ElmoVectorizer(tiny, dtype=dtype).fit(SENTENCES)
    assert len(shared_models()._models) == MAX_MODELS


def test_no_rows_have_the_width_of_the_features(tiny: Path) -> None:
    width = ElmoVectorizer(tiny).fit_transform(SENTENCES).shape[1]
    assert ElmoVectorizer(tiny).fit_transform([]).shape == (0, width)
    assert ElmoTokenVectorizer(tiny, layers=[0, 1]).fit_transform([]).shape == (0, 2 * width)


@pytest.mark.parametrize(
    ("estimator", "rows", "message"),
    [
        (ElmoVectorizer(), "a text", "expected several sentences"),
        (ElmoVectorizer(), ["a text", 3], "sentence 1 is 3"),
        (ElmoVectorizer(), [float("nan")], "sentence 0 is nan"),
        (ElmoVectorizer(), np.zeros((2, 2)), "shape"),
        (ElmoVectorizer(pooling="sum"), ["a"], "pooling='sum'"),  # type: ignore[arg-type]
        (ElmoVectorizer(layers=7), ["a"], "7"),
        (ElmoVectorizer(cache_megabytes=-1), ["a"], "cache_megabytes is -1"),
        (ElmoVectorizer("no/such/model.hdf5"), ["a"], "no/such/model.hdf5"),
        (ElmoTokenVectorizer(), ["a text"], "expected \\(sentence, position\\)"),
        (ElmoTokenVectorizer(), [("a", 1.5)], "the position 1.5"),
        (ElmoTokenVectorizer(), [(["a"], 0), (["a"], 1)], "row 1: position 1"),
        (ElmoTokenVectorizer(), [(["a", 2], 0)], "the token 2"),
        (ElmoTokenVectorizer(), 7, "expected rows"),
    ],
)
def test_bad_input_is_named(estimator: Any, rows: Any, message: str) -> None:
    with pytest.raises(ElmoxError, match=message):
        estimator.fit_transform(rows)


def test_without_scikit_learn_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for module in [name for name in sys.modules if name.startswith("sklearn.")]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "elmox.integrations.sklearn")
    with pytest.raises(ElmoxError, match=r"scikit-learn is not installed: pip install .elmox") as (
        caught
    ):
        __import__("elmox.integrations.sklearn")
    assert isinstance(caught.value, ImportError)
    assert str(caught.value.name).partition(".")[0] == "sklearn"
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.name) == (str(caught.value), caught.value.name)
