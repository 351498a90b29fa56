"""Spans and tags: from one to the other and back, in every scheme, well-formed and not."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmox.errors import ElmoxError
from elmox.tasks.tagging.spans import (
    Scheme,
    Span,
    allowed_transitions,
    converted,
    scheme_of,
    spans_of,
    tags_of,
)

SCHEMES: tuple[Scheme, ...] = ("BIO", "IOB1", "BIOUL")
SPANS = [Span(0, 2, "PER"), Span(3, 6, "PER"), Span(6, 7, "work-of"), Span(7, 8, "work-of")]
TAGS: dict[Scheme, str] = {
    "BIO": "B-PER I-PER O B-PER I-PER I-PER B-work-of B-work-of O",
    "IOB1": "I-PER I-PER O I-PER I-PER I-PER I-work-of B-work-of O",
    "BIOUL": "B-PER L-PER O B-PER I-PER L-PER U-work-of U-work-of O",
}


@st.composite
def sentences(draw: st.DrawFn) -> tuple[list[Span], int]:
    """Spans that do not overlap, and the length of their sentence."""
    spans, end = [], 0
    pieces = st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from(["A", "B-C", ""]))
    for gap, width, label in draw(st.lists(pieces, max_size=5)):
        spans.append(Span(end + gap, end + gap + width, label))
        end += gap + width
    return spans, end + draw(st.integers(0, 2))


def all_tags(scheme: Scheme) -> list[str]:
    prefixes = "BIUL" if scheme == "BIOUL" else "BI"
    return ["O", *(f"{prefix}-{label}" for prefix in prefixes for label in "XY")]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_same_spans_in_each_scheme(scheme: Scheme) -> None:
    tags = TAGS[scheme].split()
    assert spans_of(tags, scheme) == SPANS
    assert tags_of(reversed(SPANS), 9, scheme) == tags
    assert scheme_of([tags]) == scheme
    for to in SCHEMES:
        assert converted(tags, scheme, to) == TAGS[to].split()


@given(sentences(), st.sampled_from(SCHEMES), st.sampled_from(SCHEMES))
def test_round_trips(sentence: tuple[list[Span], int], scheme: Scheme, to: Scheme) -> None:
    spans, length = sentence
    tags = tags_of(spans, length, scheme)
    assert len(tags) == length
    assert spans_of(tags, scheme) == spans
    assert converted(converted(tags, scheme, to), to, scheme) == tags
    assert scheme_of([tags]) == (scheme if spans else "BIO")


@given(st.data(), st.sampled_from(SCHEMES))
def test_any_tags_have_spans_and_are_cleaned_once(data: st.DataObject, scheme: Scheme) -> None:
    tags = data.draw(st.lists(st.sampled_from(all_tags(scheme)), max_size=8))
    spans = spans_of(tags, scheme)
    clean = tags_of(spans, len(tags), scheme)
    assert spans_of(clean, scheme) == spans
    assert [tag == "O" for tag in clean] == [tag == "O" for tag in tags]
    assert {span.label for span in spans} == {tag[2:] for tag in tags if tag != "O"}


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("O I-A I-A", [(1, 3, "A")]),
        ("I-A I-B I-A", [(0, 1, "A"), (1, 2, "B"), (2, 3, "A")]),
        ("B-A I-B B-B", [(0, 1, "A"), (1, 2, "B"), (2, 3, "B")]),
        ("I-A B-A I-A", [(0, 1, "A"), (1, 3, "A")]),
        ("B I O I B", [(0, 2, ""), (3, 4, ""), (4, 5, "")]),
        ("", []),
    ],
)
def test_lenient_reading_of_bio(tags: str, spans: list[tuple[int, int, str]]) -> None:
    assert spans_of(tags.split(), "BIO") == spans_of(tags.split(), "IOB1") == spans


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("B-A E-A S-A", [(0, 2, "A"), (2, 3, "A")]),
        ("B-A I-A O", [(0, 2, "A")]),
        ("O L-A I-A", [(1, 2, "A"), (2, 3, "A")]),
        ("B-A U-A L-A", [(0, 1, "A"), (1, 2, "A"), (2, 3, "A")]),
        ("B-A L-B B-B", [(0, 1, "A"), (1, 2, "B"), (2, 3, "B")]),
    ],
)
def test_lenient_reading_of_bioul(tags: str, spans: list[tuple[int, int, str]]) -> None:
    assert spans_of(tags.split(), "BIOUL") == spans


@pytest.mark.parametrize(
    ("sentences", "scheme"),
    [
        ([], "BIO"),
        (["", "O O"], "BIO"),
        (["O I-A", "I-A"], "IOB1"),
        (["O I-A B-A"], "IOB1"),
        (["B-A", "I-A B-B", "B-A"], "BIO"),  # a slip in the second
        (["B-A", "I-A I-B", "B-A I-C"], "IOB1"),
        (["B-A", "I-A"], "BIO"),  # as many of each
        (["B-A I-A", "S-A"], "BIOUL"),
        (["B-A I-A", "B-A E-A"], "BIOUL"),
    ],
)
def test_schemes_are_recognized(sentences: list[str], scheme: Scheme) -> None:
    assert scheme_of(sentence.split() for sentence in sentences) == scheme


def test_tags_outside_a_scheme() -> None:
    for tag in ("NN", "", "-", "-A", "O-A", "b-A", "X-A", "BI-A", "."):
        with pytest.raises(ElmoxError, match=f"the tag '{tag}' is not one of BIOUL: expected O,"):
            scheme_of([["O", tag]])
    with pytest.raises(ElmoxError, match="the tag 'U-A' is not one of BIO: expected O, B-LABEL"):
        spans_of(["U-A"], "BIO")


@pytest.mark.parametrize("spans", [[(0, 0)], [(0, 4)], [(-1, 1)], [(2, 1)], [(0, 2), (1, 3)]])
def test_spans_that_have_no_tags(spans: list[tuple[int, int]]) -> None:
    with pytest.raises(ElmoxError, match="do not overlap"):
        tags_of([Span(*span, "A") for span in spans], 3, "BIO")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_exactly_the_well_formed_sequences_are_allowed(scheme: Scheme) -> None:
    tags = all_tags(scheme)
    starts, ends, pairs = allowed_transitions(tags, scheme)
    for length in (1, 2, 3):
        for path in product(range(len(tags)), repeat=length):
            allowed = (
                starts[path[0]] and ends[path[-1]] and all(pairs[two] for two in pairwise(path))
            )
            sequence = [tags[tag] for tag in path]
            assert allowed == (converted(sequence, scheme, scheme) == sequence)


def test_bioes_is_constrained_as_bioul_is() -> None:
    bioul = allowed_transitions(["O", "B-X", "I-X", "L-X", "U-X"], "BIOUL")
    bioes = allowed_transitions(["O", "B-X", "I-X", "E-X", "S-X"], "BIOUL")
    for expected, other in zip(bioul, bioes, strict=True):
        np.testing.assert_array_equal(expected, other)


def test_all_is_allowed_for_plain_tags() -> None:
    allowed = allowed_transitions(["NN", "VB", "B-X"], None)
    assert [mask.shape for mask in allowed] == [(3,), (3,), (3, 3)]
    assert all(mask.all() and mask.dtype == np.bool_ for mask in allowed)
