"""Runs that mixed versions of their code are found; a saved version replaces the whole package at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from chaos.code_changes import PACKAGE, CodeChanger, code_mismatches
from chaos.evidence import Evidence
from chaos.side_effects import SideEffect
from msgspec import structs

from support.histories import CREATE, RUN, evidence_of, finish, journal_of, play, start


def run_of(detail: str, *, version: str = "3f2a91c07d4e") -> Evidence:
    begun = structs.replace(start(), code_version=version)
    line = SideEffect(at=4.0, run_id=RUN, pid=1, what="used", detail=detail)
    return replace(evidence_of(play(CREATE, begun, finish())), side_effects={RUN: [line]})


def both(one: Evidence, other: Evidence) -> Evidence:
    """The evidence of two runs."""
    lines = [replace(line, run_id="other") for line in other.side_effects[RUN]]
    logs = {RUN: one.logs[RUN], "other": other.logs[RUN]}
    return replace(one, side_effects={**one.side_effects, "other": lines}, logs=logs)


@pytest.mark.parametrize(
    ("evidence", "count"),
    [
        (run_of("code-1,code-1"), 0),
        (run_of("code-1,code-2"), 1),
        (both(run_of("code-1,code-1"), run_of("code-1,code-1")), 0),
        (both(run_of("code-1,code-1"), run_of("code-2,code-2")), 1),
        (both(run_of("code-1,code-1"), run_of("code-2,code-2", version="other")), 0),
    ],
    ids=["one version", "mixed in a run", "the same twice", "one name for two", "two names for two"],
)
def test_runs_with_mixed_code_are_found(evidence: Evidence, count: int) -> None:
    assert len(list(code_mismatches(evidence, journal_of()))) == count


def test_a_change_replaces_both_modules(tmp_path: Path) -> None:
    changer = CodeChanger(tmp_path)

    names = [changer.change(), changer.change()]

    texts = {(tmp_path / PACKAGE / module).read_text() for module in ("__init__.py", "later.py")}
    assert names == ["code-1", "code-2"]
    assert texts == {"STAMP = 'code-2'\n"}
