"""An execution as it was: the commits that had been stored at a version, or the events until a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from pyoco_server.domain.execution.events import StoredCommit
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.state import Execution, empty_execution
from pyoco_server.domain.ids import RunId


class AsOfVersion(msgspec.Struct, frozen=True):
    """With every commit up to this version."""

    version: int


class AsOfTime(msgspec.Struct, frozen=True):
    """With every event up to the last one that happened until this time, in unix seconds.

    The order of the log counts where clocks of machines differ: no event is left out from between others.
    """

    at: float


AsOf = AsOfVersion | AsOfTime


def fold_as_of(commits: Sequence[StoredCommit], run_id: RunId, as_of: AsOf) -> Execution:
    """The execution of these commits as it was; one that did not exist then is empty."""
    match as_of:
        case AsOfVersion(version):
            until = [stored for stored in commits if stored.sequence <= version]
        case AsOfTime(at):
            until = list(_until(commits, at))
    return fold_commits(until, empty_execution(run_id))


def _until(commits: Sequence[StoredCommit], at: float) -> Iterator[StoredCommit]:
    """The commits up to that event; the last one may be cut."""
    ends = [_end(stored, at) for stored in commits]
    last = max((number for number, end in enumerate(ends) if end), default=None)
    if last is not None:
        yield from commits[:last]
        commit = commits[last].commit
        yield replace(commits[last], commit=replace(commit, events=commit.events[: ends[last]]))


def _end(stored: StoredCommit, at: float) -> int:
    """How many events the commit has up to its last one that happened until then."""
    return max((number for number, event in enumerate(stored.commit.events, start=1) if event.at <= at), default=0)
