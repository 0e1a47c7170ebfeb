"""Stored events are read for ever: each event name has a file that must decode, fold, and be written the same way.

A golden file is never edited. A new field that may be left out is a new file beside the old one (`NAME.2.json`); a
changed shape is a new schemaVersion with an upcaster, and the file of the old one stays.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import orjson
import pytest

from pyoco_server.domain.execution.codec import decode, encode
from pyoco_server.domain.execution.events import EVENT_NAMES, Commit
from pyoco_server.domain.execution.evolve import fold
from pyoco_server.domain.execution.state import Execution, empty_execution
from unit.domain.execution.strategies import RUN_ID

GOLDEN = Path(__file__).parents[3] / "golden" / "events"
FILES = sorted(path.name for path in GOLDEN.iterdir())
# The newest file of each event: NAME.2.json is newer than NAME.json.
NEWEST = {name.partition(".")[0]: name for name in sorted(FILES, key=lambda name: name.removesuffix(".json"))}


def _commit(file: str) -> Commit:
    return decode((GOLDEN / file).read_bytes())


def _created() -> Execution:
    return fold(_commit("EXECUTION_CREATED.json").events, empty_execution(RUN_ID))


def _unset(value: object, path: str) -> list[str]:
    """Fields below `value` with their default, whose names a golden file would not contain."""
    if not isinstance(value, msgspec.Struct):
        return []
    missing = []
    for item in msgspec.structs.fields(value):
        content = getattr(value, item.name)
        missing += [f"{path}.{item.name}"] if content == item.default else []
        missing += _unset(content, f"{path}.{item.name}")
    return missing


def test_events_and_golden_files_correspond() -> None:
    assert {name.partition(".")[0] for name in FILES} == set(EVENT_NAMES)
    assert {f"{name}.json" for name in EVENT_NAMES} <= set(FILES)


@pytest.mark.parametrize("name", EVENT_NAMES)
def test_the_newest_golden_commit_decodes_to_its_event_with_every_field_set(name: str) -> None:
    commit = _commit(NEWEST[name])

    assert [type(event) for event in commit.events] == [EVENT_NAMES[name]]
    assert _unset(commit.events[0], name) == []


def test_a_golden_commit_has_every_field_of_the_envelope() -> None:
    commit = _commit(NEWEST["EXECUTION_CREATED"])

    assert _unset(commit, "commit") == []


@pytest.mark.parametrize("file", FILES)
def test_a_golden_commit_folds_and_changes_the_execution(file: str) -> None:
    before = empty_execution(RUN_ID) if file.startswith("EXECUTION_CREATED.") else _created()

    execution = fold(_commit(file).events, before)

    assert execution != before


@pytest.mark.parametrize("file", FILES)
def test_a_golden_commit_is_encoded_unchanged(file: str) -> None:
    stored = orjson.dumps(orjson.loads((GOLDEN / file).read_bytes()))

    assert encode(RUN_ID, decode(stored)) == stored
