"""Parts of answers: `--json FIELDS` and `--template TEXT`."""

from __future__ import annotations

from typing import Any

import pytest

from pyoco_server.cli.selection import parse_fields, parse_template
from pyoco_server.errors import InvalidUsage

RUN: dict[str, Any] = {
    "run_id": "r-1",
    "status": "FAILED",
    "error": None,
    "attempt": 2,
    "tags": ["a", "b"],
    "cancel": {"how": "killed"},
    "params": {"name": "Ann\x1b[2J\nB"},
}


def test_fields_keep_their_order_and_names() -> None:
    selection = parse_fields("status, id,cancel.how,status")

    assert list(selection.of(RUN).items()) == [("status", "FAILED"), ("id", "r-1"), ("cancel.how", "killed")]


@pytest.mark.parametrize(
    ("item", "found"),
    [({"id": "j-1"}, "j-1"), ({"executionId": "e-1"}, "e-1"), ({"run_id": "r-1", "worker_id": "w"}, "r-1")],
)
def test_id_is_the_id_of_every_kind_of_item(item: dict[str, str], found: str) -> None:
    assert parse_fields("id").of(item) == {"id": found}


@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("{id} {status}", "r-1 FAILED"),
        (r"{id}\t{attempt}\n{error}|", "r-1\t2\n|"),
        ("{tags} {tags.1} {tags.7}", '["a", "b"] b '),
        ("{cancel.how} {cancel.how.deep}", "killed "),
        (r"{{{id}}} \\n", "{r-1} \\n"),
        ("{params.name} {id}", "Ann\ufffd[2J B r-1"),
    ],
)
def test_a_template_has_plain_values_and_no_control_characters(template: str, line: str) -> None:
    assert parse_template(template).line(RUN) == line


@pytest.mark.parametrize("path", ["__class__", "status.__class__", "tags.__len__", "params.name.upper"])
def test_a_template_reads_data_only(path: str) -> None:
    assert parse_template(f"{{{path}}}").line(RUN) == ""


def test_an_unknown_field_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidUsage, match="no field 'nope'; there are: attempt, cancel, error") as refused:
        parse_fields("id,nope").check([RUN], known=["version"])

    assert "version" in refused.value.detail


def test_the_corrected_fields_have_no_field_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["pyoco-client", "list", "--json", "id,nope"])

    with pytest.raises(InvalidUsage) as refused:
        parse_fields("id,nope").check([RUN])

    assert refused.value.facts["example"] == "pyoco-client list --json id"


def test_a_field_that_only_some_items_have_is_known() -> None:
    parse_template("{error} {start_time}").check([{"run_id": "r"}, {"error": "x"}], known=["start_time"])
