"""The benchmark of the explorer, on a tiny model."""

from pathlib import Path

import pytest
from explorer_page import CHROMIUM
from language_models import tiny_lm


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")
def test_a_visit(tmp_path: Path) -> None:
    pytest.importorskip("playwright")
    from explorer import measure, sentences_of, table

    tiny_lm(tmp_path).elmo().save_pretrained(tmp_path / "tiny")
    sentences = sentences_of("One sentence. " + "The cat sat " * 5 + ". " + "A dog " * 9, 2)
    assert [len(sentence.split()) for sentence in sentences] == [12, 12]
    first, second = measure(str(tmp_path / "tiny"), tmp_path, 2, sentences)
    for times in (first, second):
        assert 0 < times.first_paint < times.first_vectors
        assert len(times.sentences) == 2
        assert min(times.sentences) >= 30  # the page waits as long for another key
    lines = table([first, second])
    assert lines[2].startswith("| first paint | ")
    assert f"{second.first_vectors:,.0f} |" in lines[3]
