"""The sample of training lines in capitals and in lower case."""


def test_about_two_in_a_hundred_lines_change_case() -> None:
    from cased_lines import CAPITALS, LOWER_CASE, cased

    lines = [f"The Cat number {number} sat.\n" for number in range(20_000)]
    changed = [cased(line) for line in lines]
    capitals = sum(new is not None and new.isupper() for new in changed)
    lower = sum(new is not None and new.islower() for new in changed)
    assert abs(capitals / len(lines) - CAPITALS / 1000) < 0.003
    assert abs(lower / len(lines) - LOWER_CASE / 1000) < 0.003
    assert changed == [cased(line) for line in lines]  # depends on nothing but the line


def test_blank_lines_are_left_out() -> None:
    from cased_lines import cased

    assert not any(cased("\n" * number) for number in range(1000))
