"""A run as the commands show it: fields that this run lacks."""

from __future__ import annotations

import pytest

from pyoco_server.cli.client.commands.runs import show_run, show_runs
from pyoco_server.cli.selection import parse_fields, parse_template
from pyoco_server.errors import InvalidUsage

FAILED = {"run_id": "r-1", "status": "FAILED", "error": "no disk"}


def test_the_result_of_a_failed_run_is_empty_in_a_template(capsys: pytest.CaptureFixture[str]) -> None:
    show_run(parse_template("{status} [{result}] {error}"), FAILED)

    assert capsys.readouterr().out == "FAILED [] no disk\n"


def test_several_runs_without_a_result_have_null(capsys: pytest.CaptureFixture[str]) -> None:
    show_runs(parse_fields("result"), [FAILED, FAILED], one=False)

    assert capsys.readouterr().out.split() == ["[", "{", '"result":', "null", "},", "{", '"result":', "null", "}", "]"]


def test_a_field_that_no_run_has_is_refused() -> None:
    with pytest.raises(InvalidUsage, match="no field 'resutl'"):
        show_run(parse_template("{resutl}"), FAILED)
