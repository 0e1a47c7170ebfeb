"""The digest of a form: independent of the order of its parts, different for different parts."""

from __future__ import annotations

from hashlib import sha256
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.idempotency.keys import FormPart, form_digest

parts = st.builds(FormPart.of, st.text(max_size=4), st.binary(max_size=6), st.none() | st.text(max_size=4))


def test_the_order_of_the_parts_does_not_matter() -> None:
    form = [FormPart.of("tag", b"gpu"), FormPart.of("flow_name", b"main"), FormPart.of("workflow", b"x", "flow.yaml")]

    assert len({form_digest(order) for order in permutations(form)}) == 1


@pytest.mark.parametrize(
    "other",
    [
        [FormPart.of("ab", b"c", "f")],
        [FormPart.of("a", b"bcf")],
        [FormPart.of("a", b"bc", "")],
        [FormPart.of("a", b"bc", "F")],
        [FormPart.of("a", b"bc", "f"), FormPart.of("", b"")],
        [FormPart.of("a", b"bc", "f")] * 2,
        [],
    ],
    ids=range(7),
)
def test_another_form_has_another_digest(other: list[FormPart]) -> None:
    assert form_digest(other) != form_digest([FormPart.of("a", b"bc", "f")])


def test_a_part_fed_in_chunks_has_the_same_digest() -> None:
    fed = sha256()
    for piece in (b"large ", b"", b"file"):
        fed.update(piece)

    part = FormPart(name="wheel", file_name="a.whl", sha256=fed.digest())

    assert form_digest([part]) == form_digest([FormPart.of("wheel", b"large file", "a.whl")])


@given(st.lists(parts, max_size=4), st.lists(parts, max_size=4))
def test_two_forms_have_one_digest_exactly_if_they_have_the_same_parts(
    one: list[FormPart], other: list[FormPart]
) -> None:
    same = sorted(map(repr, one)) == sorted(map(repr, other))

    assert (form_digest(one) == form_digest(other)) is same
