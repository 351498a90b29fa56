"""ELMo vectors in a real Spark session: two Python workers, started by Java."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmox.elmo import Elmo

pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java", allow_module_level=True)

SENTENCES = ["I will buy you a present.", "", "Live in the present", "Do n't look back ."]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        session = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "3").getOrCreate()
        yield session
        session.stop()


@pytest.fixture(scope="module")
def elmo(tiny: Path) -> Elmo:
    return Elmo.from_pretrained(tiny, device="cpu")


def column(table: Any, name: str) -> list[Any]:
    """The values of a column, in the order of `row`."""
    return [row[name] for row in table.select("row", name).orderBy("row").collect()]


@pytest.mark.parametrize("layers", ["average", "all"])
def test_a_vector_per_sentence(spark: Any, elmo: Elmo, tiny: Path, layers: str) -> None:
    from elmox.integrations.spark import sentence_vectors

    texts = SENTENCES * 5
    table = spark.createDataFrame([*enumerate([*texts, None])], "row int, text string").repartition(
        2
    )
    udf = sentence_vectors(str(tiny), layers=layers, device="cpu")
    *vectors, last = column(table.withColumn("vector", udf("text")), "vector")
    expected = elmo.encode(texts, layers=layers).reshape(len(texts), -1)
    assert last is None
    np.testing.assert_allclose(np.array(vectors), expected, atol=1e-5)


@pytest.mark.parametrize("layers", ["top", [0, 2]])
def test_a_vector_per_token(spark: Any, elmo: Elmo, tiny: Path, layers: Any) -> None:
    from elmox.integrations.spark import token_vectors

    rows = [(i, text.split()) for i, text in enumerate(SENTENCES)]
    table = spark.createDataFrame(rows, "row int, tokens array<string>")
    udf = token_vectors(str(tiny), layers=layers, device="cpu")
    result = column(table.withColumn("vectors", udf("tokens")), "vectors")
    expected = elmo.encode_tokens([tokens for _, tokens in rows], layers=layers)
    for (_, tokens), vectors, one in zip(rows, result, expected, strict=True):
        assert len(vectors) == len(tokens)
        if tokens:
            array = one if one.ndim == 2 else np.concatenate([*one], axis=-1)
            np.testing.assert_allclose(np.array(vectors), array, atol=1e-5)
