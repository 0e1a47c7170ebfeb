"""Ids are validated once at the edge: texts that cannot be a key or a subject token are refused."""

from __future__ import annotations

import pytest

from pyoco_server.domain.ids import is_path_name, parse_label, parse_run_id, parse_tag, parse_worker_id
from pyoco_server.errors import InvalidRequest, RunNotFound
from unit.domain.execution.strategies import RUN_ID


def test_a_run_id_is_a_uuid_in_small_letters() -> None:
    assert parse_run_id(RUN_ID) == RUN_ID
    assert parse_run_id(RUN_ID.upper()) == RUN_ID


@pytest.mark.parametrize(
    "text", ["", "42", f"{RUN_ID}\n", f" {RUN_ID}", RUN_ID.replace("-", ""), f"{RUN_ID}.>", "＊" * 36]
)
def test_any_other_text_is_no_run_id(text: str) -> None:
    with pytest.raises(RunNotFound) as caught:
        parse_run_id(text)

    assert caught.value.facts["run_id"] == text


def test_a_very_long_text_is_not_echoed_in_the_error() -> None:
    with pytest.raises(RunNotFound) as caught:
        parse_run_id("x" * 10_000)

    assert caught.value.facts["run_id"] == "x" * 64


@pytest.mark.parametrize("text", ["cpu", "GPU-2_a", "0", "x" * 64])
def test_a_routing_tag_is_one_token_of_a_subject(text: str) -> None:
    assert parse_tag(text) == text


@pytest.mark.parametrize("text", ["", "a.b", "a b", "*", ">", "cpu\n", "東京", "x" * 65])
def test_a_text_that_is_not_one_token_is_no_routing_tag(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_tag(text)


@pytest.mark.parametrize("text", ["nightly", "東京 営業部", "a.b:c/d *", "é" * 128])
def test_a_label_is_any_printable_line(text: str) -> None:
    assert parse_label(text) == text


@pytest.mark.parametrize(
    "text", ["", "two\nlines", "tab\t", "\x00", "\ud800", "\u202e", "x" * 129, ".", ".."], ids=ascii
)
def test_a_text_that_is_unprintable_or_invalid_in_a_path_is_no_label(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_label(text)


@pytest.mark.parametrize("text", ["worker", "host.example-4711", "_a", "x" * 128])
def test_a_worker_id_is_a_key_of_the_registry(text: str) -> None:
    assert parse_worker_id(text) == text


@pytest.mark.parametrize("text", ["", ".a", "a.", "a..b", "a b", "a*", "a>", "a/b", "w\n", "ü", "x" * 129], ids=ascii)
def test_an_invalid_key_is_no_worker_id(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_worker_id(text)


@pytest.mark.parametrize("text", ["build", "run tests", "承認", "a.b", "...", "%2F", "x" * 128])
def test_a_node_id_is_valid_in_a_path(text: str) -> None:
    assert is_path_name(text)


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "a\nb", "\x00", "\u200b", "x" * 129])
def test_path_traversal_and_invisible_characters_are_no_node_id(text: str) -> None:
    assert not is_path_name(text)
