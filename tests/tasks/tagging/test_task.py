"""Tags that cannot be meant."""

from pathlib import Path

import pytest

from elmox import ElmoxError
from elmox.tasks.registry import find_task
from elmox.tasks.tagging.task import MAX_LABELS


def test_a_wrong_column(tmp_path: Path) -> None:
    task = find_task("ner")
    for num_labels in (MAX_LABELS, 1000):
        path = tmp_path / f"{num_labels}.txt"
        path.write_text("".join(f"word B-{number}\n\n" for number in range(num_labels)))
        train = task.read(path)
        if num_labels == MAX_LABELS:
            assert len(task.configure(train, task.settings_type()).tags) == 4 * MAX_LABELS + 1
        else:
            with pytest.raises(ElmoxError, match=r"the last column .* has 1,000 different labels"):
                task.configure(train, task.settings_type())
