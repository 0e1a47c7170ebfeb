"""Each check of wheels finds its violation, and nothing in valid evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import pytest
from chaos.evidence import Evidence, Synced, SyncFolder
from chaos.invariants import violations
from chaos.journal import Change, Happened, Journal
from chaos.side_effects import SideEffect
from chaos.wheel_changes import build_wheel
from msgspec import structs

from pyoco_server.domain.execution.state import WheelUsed
from support.histories import CREATE, RUN, evidence_of, finish, journal_of, play, start

TAGS = ("default", "wheels")
OLD, NEW, BAD = ("alpha-1.0-py3-none-any.whl", "a1"), ("alpha-2.0-py3-none-any.whl", "a2"), ("alpha-3.0-py3.whl", "a3")
OTHER = ("beta-1.0-py3-none-any.whl", "b1")


def change(
    wheel: tuple[str, str],
    what: Literal["upload", "delete"] = "upload",
    how: Happened = "done",
    *,
    good: bool = True,
    tags: tuple[str, ...] = (),
) -> Change:
    name, sha256 = wheel
    return Change(what=what, name=name, stamp=f"of {sha256}", sha256=sha256, tags=tags, good=good, how=how)


def journal(*changes: Change) -> Journal:
    written = journal_of()
    written.changes += changes or (change(OLD), change(NEW), change(OTHER, tags=("red",)))
    return written


def registered(*wheels: tuple[str, str], tags: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    return [{"name": name, "sha256_hex": sha256, "tags": list(tags)} for name, sha256 in wheels]


def idle(**changed: Any) -> Evidence:
    """Valid evidence: one worker with the newest wheel, and no other files."""
    says = {"environment": "e1", "installed": [{"wheel_name": NEW[0]}]}
    base = replace(
        evidence_of(play(CREATE, start(), finish())),
        registry={"gateway-1": [*registered(OLD, NEW), *registered(OTHER, tags=("red",))]},
        synced=[Synced(worker="worker-2", tags=TAGS, says=says, environment="e1", wheels=frozenset({NEW}))],
        folders=[SyncFolder(name="wheels", environments={"e1": True}, files=["a1", "a2"], unfinished=[])],
    )
    return replace(base, **changed)


def run_of(first: Mapping[str, str], last: Mapping[str, str] | None = None, *, complete: bool = True) -> Evidence:
    """A run whose start names the newest wheel, and which loads these."""
    begun = structs.replace(start(), wheels=(WheelUsed(name=NEW[0], sha256=NEW[1]),))
    evidence = evidence_of(play(CREATE, begun, finish()))
    detail = json.dumps({"first": first, "last": first if last is None else last, "complete": complete})
    lines = [*evidence.side_effects[RUN], SideEffect(at=4.0, run_id=RUN, pid=1, what="saw", detail=detail)]
    return replace(evidence, side_effects={RUN: lines})


def broken(evidence: Evidence, written: Journal | None = None) -> set[str]:
    return {violation.broken for violation in violations(evidence, written or journal())}


def test_an_idle_system_has_no_violations() -> None:
    assert broken(idle()) == set()


def test_a_run_with_the_recorded_wheels_has_no_violations() -> None:
    assert broken(run_of({"alpha": "of a2"})) == set()


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param(run_of({"alpha": "of a1"}), id="another version"),
        pytest.param(run_of({}), id="none"),
        pytest.param(run_of({"alpha": "of a2", "beta": "of b1"}), id="one more"),
        pytest.param(run_of({"alpha": "of a9"}), id="one that was never registered"),
        pytest.param(run_of({"alpha": "of a2"}, {"alpha": "of a1"}), id="changed under it"),
        pytest.param(run_of({"alpha": "of a2"}, {"alpha": "FileNotFoundError"}), id="removed under it"),
        pytest.param(run_of({"alpha": "of a2"}, complete=False), id="incomplete"),
    ],
)
def test_a_run_with_other_wheels_than_recorded_is_found(evidence: Evidence) -> None:
    assert broken(evidence) == {"runs with other wheels than recorded"}


def test_a_rejected_wheel_counts_as_never_registered() -> None:
    written = journal(change(OLD), change(NEW, how="refused"))

    assert broken(run_of({"alpha": "of a2"}), written) == {"runs with other wheels than recorded"}


@pytest.mark.parametrize(
    ("changes", "there", "wrong"),
    [
        ([change(NEW)], [NEW], False),
        ([change(NEW)], [], True),
        ([change(NEW), change(NEW, "delete")], [NEW], True),
        ([change(NEW), change(NEW, "delete")], [], False),
        ([change(NEW), change((NEW[0], "a9"), how="refused")], [NEW], False),
        ([change(NEW), change(NEW, "delete"), change((NEW[0], "a9"))], [NEW], True),
        ([change(NEW, how="unknown")], [NEW], False),
        ([change(NEW, how="unknown")], [], False),
        ([change(NEW, how="unknown")], [(NEW[0], "a9")], True),
        ([change(OLD)], [OLD, NEW], True),
    ],
)
def test_a_confirmed_change_is_in_the_registry(
    changes: list[Change], there: list[tuple[str, str]], wrong: bool
) -> None:
    evidence = idle(registry={"gateway-1": registered(*there)}, synced=[], folders=[])

    assert ("wheels that were lost or came back" in broken(evidence, journal(*changes))) is wrong


def test_a_worker_with_an_older_version_is_found() -> None:
    synced = replace(idle().synced[0], wheels=frozenset({OLD}))

    assert broken(idle(synced=[synced])) == {"workers without the latest wheels"}


def test_a_worker_that_reports_other_wheels_than_it_has_is_found() -> None:
    synced = replace(idle().synced[0], says={"environment": "e0", "installed": []})

    assert broken(idle(synced=[synced])) == {"workers without the latest wheels"}


def test_a_wheel_that_cannot_be_installed_is_not_expected_of_a_worker() -> None:
    written = journal(change(OLD), change(NEW), change(BAD, good=False))

    assert broken(idle(registry={"gateway-1": registered(OLD, NEW, BAD)}), written) == set()


@pytest.mark.parametrize(
    "folder",
    [
        SyncFolder(name="wheels", environments={"e1": True, "e0": True}, files=[], unfinished=[]),
        SyncFolder(name="wheels", environments={"e1": True, "e2": False}, files=[], unfinished=[]),
        SyncFolder(name="wheels", environments={"e1": True}, files=["a0"], unfinished=[]),
        SyncFolder(name="wheels", environments={"e1": True}, files=[], unfinished=["alpha.whl.12.part"]),
    ],
    ids=["an old environment", "an incomplete one", "a file", "an interrupted download"],
)
def test_leftover_files_are_found(folder: SyncFolder) -> None:
    assert broken(idle(folders=[folder])) == {"environments left behind"}


def test_two_builds_of_one_version_have_different_content() -> None:
    first, second = build_wheel("alpha", 1, build=1), build_wheel("alpha", 1, build=2)

    assert (first.name, first.stamp, first.data != second.data) == (second.name, "1.0/1", True)
