"""The invariants of the audit trail: one record for each change of a caller, at every gateway. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from chaos.evidence import Check, Evidence, Finding, Plain
from chaos.journal import Journal
from chaos.recheck_invariants import is_request
from pyoco_server.domain.audit import ACTIONS, RUN, record_of
from pyoco_server.domain.ids import RunId


def wrong_records(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """Each gateway shows the records of all commits of callers, and no other ones of runs."""
    expected = Counter(_commits(evidence))
    for gateway, records in evidence.audit.items():
        found = Counter(map(_facts, _of(records, RUN)))
        for facts, count in (expected - found).items():
            yield facts[0], f"{gateway} lacks {count} records of {facts[1:]}"
        for facts, count in (found - expected).items():
            yield facts[0], f"{gateway} has {count} records too many of {facts[1:]}"


def repeated_requests(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """The creation, the start and the end of a request are one change of its caller; cancels may be repeated."""
    requests = {run_id for run_id, log in evidence.logs.items() if is_request(log)}
    for gateway, records in evidence.audit.items():
        actions: dict[str, list[str]] = {run_id: [] for run_id in requests}
        for record in _of(records, RUN):
            if record["resource"]["id"] in requests:
                actions[record["resource"]["id"]].append(record["action"])
        for run_id, found in actions.items():
            others = [action for action in found if action != ACTIONS["CancelExecution"]]
            if others != [ACTIONS["CreateExecution"]] or len(found) > 2:
                yield run_id, f"{gateway} has the records {found}"


def wrong_strategy_records(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """Each put that was confirmed has one record, which says that it was made."""
    for gateway, records in evidence.audit.items():
        found = Counter(record["resource"]["id"] for record in _of(records, "strategy") if record["outcome"] == "made")
        for strategy in found.keys() | journal.puts.keys():
            if found[strategy] != journal.puts[strategy]:
                yield strategy, f"{gateway} has {found[strategy]} records of {journal.puts[strategy]} changes"


def _all(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for check in (wrong_records, repeated_requests, wrong_strategy_records):
        yield from check(evidence, journal)


AUDIT_CHECKS: Mapping[str, Check] = {"changes without exactly one audit record": _all}

Facts = tuple[str, str, float, str | None]


def _commits(evidence: Evidence) -> Iterator[Facts]:
    """What the log says; the commits of one request to create and start have one key."""
    for run_id, log in evidence.logs.items():
        records: dict[str, Facts] = {}
        for stored in log:
            record = record_of(RunId(run_id), stored.commit)
            if record is not None:
                records.setdefault(record.key, (run_id, record.action, record.at, record.request_id))
        yield from records.values()


def _facts(record: Plain) -> Facts:
    return record["resource"]["id"], record["action"], record["at"], record["request_id"]


def _of(records: Sequence[Plain], kind: str) -> Iterator[Plain]:
    return (record for record in records if record["resource"]["kind"] == kind)
