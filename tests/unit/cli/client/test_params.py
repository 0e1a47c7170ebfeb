"""Params on the command line: sources, precedence, and errors."""

from __future__ import annotations

import io
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.cli.client.params import from_file, from_json, from_pair, merge
from pyoco_server.errors import InvalidUsage


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("count=3", {"count": 3}),
        ("name=Ann", {"name": "Ann"}),
        ('name="3"', {"name": "3"}),
        ("on=true", {"on": True}),
        ("list=[1,2]", {"list": [1, 2]}),
        ("nothing=null", {"nothing": None}),
        ("empty=", {"empty": ""}),
        ("equation=a=b", {"equation": "a=b"}),
        ("a.b=1", {"a.b": 1}),
        ("ratio=NaN", {"ratio": "NaN"}),
        ("when=2026-01-01", {"when": "2026-01-01"}),
        ("名前=花子", {"名前": "花子"}),
    ],
)
def test_a_value_is_json_if_it_parses_and_text_otherwise(text: str, params: dict[str, Any]) -> None:
    assert from_pair(text) == params


def test_the_last_option_wins(tmp_path: Path) -> None:
    file = tmp_path / "params.json"
    file.write_text('{"a": "file", "b": "file", "c": "file"}')
    given: dict[str, list[str] | None] = {
        "params_file": [str(file)],
        "params": ['{"b": "json"}'],
        "param": ["a=first", "c=last"],
    }

    params = merge(["flow_name", "param", "params_file", "tag", "params", "param"], **given)

    assert params == {"a": "file", "b": "json", "c": "last"}


def test_a_nested_value_is_replaced_as_a_whole() -> None:
    params = merge(["params", "params"], params=['{"deep": {"a": 1, "b": 2}}', '{"deep": {"b": 3}}'])

    assert params == {"deep": {"b": 3}}


@pytest.mark.parametrize(("name", "text"), [("p.json", '{"n": 1}'), ("p.yaml", "n: 1\n"), ("p.yml", "{n: 1}")])
def test_a_file_is_read_by_its_suffix(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)

    assert from_file(str(tmp_path / name)) == {"n": 1}


def test_an_empty_yaml_file_has_no_params(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("# nothing yet\n")

    assert from_file(str(tmp_path / "p.yaml")) == {}


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'\xef\xbb\xbf{"n": 1}')))

    assert from_file("-") == {"n": 1}


@pytest.mark.parametrize(
    ("arguments", "wrong", "detail", "example"),
    [
        (["--param", "count"], ("param", "count"), "key=value", ["--param", "count=value"]),
        (["--param", "=3"], ("param", "=3"), "key=value", ["--param", "key=3"]),
        (["--params", "{'a': 1}"], ("params", "{'a': 1}"), "not JSON", ["--params", '{"a": 1}']),
        (["--params={a:1}"], ("params", "{a:1}"), "not JSON", ['--params={"key": "value"}']),
        (["--params", "[1]"], ("params", "[1]"), "a list", ["--params", '{"key": [1]}']),
        (["--params", '{"a":1,"a":2}'], ("params", '{"a":1,"a":2}'), "twice", ["--params", '{"a": 2}']),
        (["--params", "[" * 9999], ("params", "[" * 9999), "not JSON", ["--params", '{"key": "value"}']),
        (
            ["--params-file", "gone.json"],
            ("params_file", "gone.json"),
            "No such file",
            ["--params-file", "params.json"],
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_invalid_params_are_reported_with_a_corrected_command(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], wrong: tuple[str, str], detail: str, example: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pyoco-client", "submit", "--flow-name", "f", *arguments])

    with pytest.raises(InvalidUsage, match=detail) as refused:
        merge([wrong[0]], **{wrong[0]: [wrong[1]]})

    assert refused.value.facts["example"] == shlex.join(["pyoco-client", "submit", "--flow-name", "f", *example])


@pytest.mark.parametrize(
    ("name", "content", "detail"),
    [
        ("p.yaml", b"when: 2026-01-01\n", "quotes"),
        ("p.yaml", b"1: one\n", "line 1"),
        ("p.yaml", b"a: 1\na: 2\n", "line 2"),
        ("p.yaml", b"a: [1\n", "not YAML"),
        ("p.yaml", b"- 1\n", "a list"),
        ("p.json", b"\xff\xfe", "UTF-8"),
        ("p.json", b'"text"', "a text"),
        ("p.json", b"", "Expecting value"),
    ],
)
def test_a_file_without_params_is_refused_by_name(tmp_path: Path, name: str, content: bytes, detail: str) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(InvalidUsage, match=detail) as refused:
        from_file(str(tmp_path / name))

    assert name in refused.value.detail


@pytest.mark.parametrize("text", ['{"a": 1e999}', '{"a": "\\ud800"}'])
def test_params_that_json_cannot_represent_are_refused_before_the_request(text: str) -> None:
    with pytest.raises(InvalidUsage, match="cannot be sent"):
        merge(["params"], params=[text])


def test_an_object_is_used_unchanged() -> None:
    assert from_json('{"a": {"b": [1, null]}}') == {"a": {"b": [1, None]}}
