"""The strict reader of YAML: accepted files have the meaning of YAML 1.1; others are refused with the line."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_server.domain import strict_yaml
from pyoco_server.domain.strict_yaml import YamlFault, read_yaml

KIB = 1024
# The machine may be busy: time says nothing about a pure function.
patient = settings(deadline=None)
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
)


def refused(text: str | bytes) -> YamlFault:
    with pytest.raises(YamlFault) as error:
        read_yaml(text if isinstance(text, bytes) else text.encode())
    return error.value


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: [x, 'y', \"z\\n\"]\nc: {d: null, e: ~, f: }",
        "a: 0x1F\nb: 010\nc: 1_000\nd: -7\ne: 0b101\nf: +1\ng: 0",
        "a: 1.5\nb: .5\nc: 1e3\nd: 1.0e+3\ne: -0.0",
        "a: yes\nb: NO\nc: on\nd: false\ne: y",
        "a: '12:30'\nb: \"2024-01-01\"\nc: !!str 12:30\nd: ! 5",
        "a: |\n  two\n  lines\nb: >-\n  folded\n  text\n",
        "a: &x [1, {b: 2}]\nc: *x\nd: *x",
        "%YAML 1.1\n---\na: 1\n...\n",
        "\ufeffa: 日本語\n",
        "? a\n: 1\n",
        "a: !!map {b: !!seq [!!int '3', !!float '2', !!bool 'yes', !!null '']}",
        "- just\n- a list",
        "text",
    ],
)
def test_an_accepted_file_has_the_meaning_of_yaml(text: str) -> None:
    assert repr(read_yaml(text.encode()).value) == repr(yaml.safe_load(text))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2024-01-01", 2, "date"),
        ("a: 2001-12-14t21:59:43.10-05:00", 1, "date"),
        ("a: 12:30", 1, "base 60"),
        ("a: 1:30.5", 1, "base 60"),
        ("a: !!int '1:30'", 1, "base 60"),
        ("a: 1\na: 2", 2, "'a' stands twice"),
        ("a: {b: 1, 'b': 2}", 1, "'b' stands twice"),
        ("a: &x {b: 1}\nc:\n  <<: *x", 3, "merge"),
        ("a: =", 1, "quotes"),
        ("1: a", 1, "a key must be text"),
        ("yes: a", 1, "a key must be text"),
        ("? [a]\n: b", 1, "a key must be text"),
        ("a: &x [1]\n? *x\n: 2", 1, "a key must be text"),
        ("a: .nan", 1, "can be kept"),
        ("a: -.inf", 1, "can be kept"),
        ("a: 1.0e+999", 1, "can be kept"),
        ("a: 9223372036854775808", 1, "64 bits"),
        ("a: " + "9" * 300, 1, "64 bits"),
        ("a: " + "9" * 5000, 1, "more digits than can be kept"),
        ("a: !<str> b", 1, "tag"),
        ("a: !!python/object/apply:os.system ['id']", 1, "tag"),
        ("a: !mine 1", 1, "tag"),
        ("a: !!binary aGk=", 1, "tag"),
        ("a: !!set {b}", 1, "tag"),
        ("a: !!int x", 1, "tag"),
        ("a: !!bool maybe", 1, "tag"),
        ("a: 1\n---\nb: 2", 2, "second document"),
        ("a: *b", 1, "undefined alias"),
        ("a: &a [*a]", 1, "refers to itself"),
        ("a: [1\nb: 2", 2, "not YAML"),
        ("a: 'x", 1, "not YAML"),
        ("\ta: 1", 1, "not YAML"),
        ('a: "\\ud800"', 1, "not YAML"),
    ],
)
def test_an_ambiguous_value_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    error = refused(text)

    assert error.line == line
    assert str(error) == f"line {line}: {error.what}"
    assert words in error.what


@pytest.mark.parametrize(
    ("hostile", "words"),
    [
        (BOMB, "aliases"),
        ("a: &a " + "x" * 40_000 + "\nb: [*a, *a]", "aliases"),
        ("a: &a [" + "1," * 2_000 + "]\nb: [" + "*a," * 10 + "]", "values"),
        ("[" * 256 * KIB, "nested deeper"),
        ("{a: " * 64 * KIB, "nested deeper"),
        ("- " * 128 * KIB, "nested deeper"),
        ("a:\n" * 80 * KIB, "values"),
        ("[" + "a," * 125 * KIB + "]", "values"),
        ("k" * 250 * KIB + ": 1", "not YAML"),
        ("&a " * 80 * KIB, "not YAML"),
        ("!" * 256 * KIB, "tag"),
        ("a: &x 1\nb: &x [*x]", "duplicate anchor"),
        ("a: \0b", "characters"),
        ("a: \x1bb", "characters"),
        ("", "empty"),
        ("# nothing\n", "empty"),
        ("a: b".encode("utf-16"), "UTF-8"),
        (b"a: 1\nb: \xff", "line 2: the file is not UTF-8"),
    ],
)
def test_hostile_bytes_are_refused_with_a_short_message(hostile: str | bytes, words: str) -> None:
    error = refused(hostile)

    assert words in str(error)
    assert len(str(error)) < 300


def test_the_number_of_values_is_bounded() -> None:
    text = b"[" + b"a," * 20_000 + b"]"

    assert len(read_yaml(text, max_values=20_001).value) == 20_000
    with pytest.raises(YamlFault, match="more than 20000 values"):
        read_yaml(text, max_values=20_000)


def test_the_bounds_hold_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_yaml, "_Loader", yaml.SafeLoader)

    assert read_yaml(b"a: [1, {b: x}]").value == {"a": [1, {"b": "x"}]}
    for text, words in ((BOMB, "aliases"), ("[" * 1000, "nested deeper"), ("a: \0", "characters")):
        assert words in refused(text).what
    assert "surrogate" in refused('a: "\\ud800"').what  # libyaml refuses it


def test_the_line_of_a_key_or_of_its_nearest_parent_is_known() -> None:
    document = read_yaml(b"flow:\n  graph: a\ntasks:\n  load:\n    callable: m:f\n    inputs:\n      x: 1\n")

    assert document.line_of("flow", "graph") == 2
    assert document.line_of("tasks", "load", "callable") == 5
    assert document.line_of("tasks", "load", "inputs", "x") == 7
    assert document.line_of("tasks", "load", "use") == 4
    assert document.line_of("nothing") == 1


plain: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(plain)
@patient
def test_written_yaml_is_read_back(value: Any) -> None:
    written = yaml.dump(value, Dumper=_NoAliases)

    assert read_yaml(written.encode()).value == value


@patient
@given(st.binary(max_size=60) | st.text("[]{}:-?&*!|>'\"%@`,# \nab0\t~", max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused_without_another_error(data: bytes) -> None:
    with suppress(YamlFault):
        read_yaml(data)


class _NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True
