"""The invariants of wheels: the registry, what a run sees, what workers install, what stays on disk. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import orjson

from chaos.evidence import Evidence, Finding, Plain, Synced
from chaos.journal import Change, Journal
from chaos.side_effects import SideEffect
from chaos.states import starts_of

Pair = tuple[str, str]


def registry_mismatches(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """A confirmed change is permanent; an unconfirmed one may or may not have happened."""
    for gateway, wheels in evidence.registry.items():
        listed = {wheel["name"]: wheel["sha256_hex"] for wheel in wheels}
        for name, changes in _by_name(journal.changes).items():
            sums = {change.sha256 for change in changes if change.what == "upload" and change.how != "refused"}
            if name in listed and listed[name] not in sums:
                yield name, f"{gateway} has it with {listed[name]}, which was never uploaded"
            if any(change.how == "unknown" for change in changes):
                continue
            last = next((change for change in reversed(changes) if change.how == "done"), None)
            expected = last.sha256 if last is not None and last.what == "upload" else None
            if listed.get(name) != expected:
                yield name, f"{gateway} has {listed.get(name)}; {[(one.what, one.how, one.sha256) for one in changes]}"
        if unknown := listed.keys() - {change.name for change in journal.changes}:
            yield gateway, f"registered, but never uploaded: {sorted(unknown)}"


def wheel_mismatches(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """A run sees one set of registered wheels from start to end, and its start event names it."""
    uploads = {
        (_package(change.name), change.stamp): (change.name, change.sha256)
        for change in journal.changes
        if change.what == "upload" and change.how != "refused"
    }
    for run_id, lines in evidence.side_effects.items():
        starts = [
            frozenset((one.name, one.sha256) for one in start.wheels) for start in starts_of(evidence.logs[run_id])
        ]
        for line in (line for line in lines if line.what == "saw"):
            yield from ((run_id, wrong) for wrong in _import_mismatches(line, uploads, starts))


def _import_mismatches(line: SideEffect, uploads: dict[Pair, Pair], starts: Sequence[frozenset[Pair]]) -> Iterator[str]:
    saw = orjson.loads(line.detail)
    if saw["first"] != saw["last"]:
        yield f"began with {saw['first']}, ended with {saw['last']}"
    if not saw["complete"]:
        yield "ran in an incomplete environment"
    stamps = list(saw["first"].items())
    if unknown := [stamp for stamp in stamps if stamp not in uploads]:
        yield f"saw {unknown}, which was never registered"
    elif (seen := frozenset(uploads[stamp] for stamp in stamps)) not in starts:
        yield f"saw {sorted(seen)}, but its starts name {[sorted(start) for start in starts]}"


def outdated_workers(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """When idle, every worker runs with the newest wheels for its tags, and reports them."""
    registered = next(iter(evidence.registry.values()), ())
    for one in evidence.synced:
        newest = newest_for(registered, one.tags, journal.changes)
        if one.wheels != newest:
            yield one.worker, f"has {sorted(one.wheels)}, the newest are {sorted(newest)}; it reports {dict(one.says)}"
        elif not _reports_installed(one):
            yield one.worker, f"has {sorted(one.wheels)} in {one.environment}, but reports {dict(one.says)}"


def newest_for(registered: Sequence[Plain], tags: Sequence[str], changes: Sequence[Change]) -> frozenset[Pair]:
    """The newest installable wheel of each package for these tags, by name and checksum."""
    bad = {change.sha256 for change in changes if not change.good}
    newest: dict[str, Plain] = {}
    for wheel in sorted(registered, key=lambda wheel: _version(wheel["name"])):
        if wheel["sha256_hex"] not in bad and (not wheel["tags"] or set(wheel["tags"]) & set(tags)):
            newest[_package(wheel["name"])] = wheel
    return frozenset((wheel["name"], wheel["sha256_hex"]) for wheel in newest.values())


def leftover_files(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """After the last change only files in use remain."""
    used = {one.environment for one in evidence.synced}
    sums = {wheel["sha256_hex"] for wheels in evidence.registry.values() for wheel in wheels}
    for folder in evidence.folders:
        for key, complete in folder.environments.items():
            if key not in used:
                yield folder.name, f"unused environment {key} ({'complete' if complete else 'incomplete'})"
        if unknown := [one for one in folder.files if one not in sums]:
            yield folder.name, f"files of wheels that left the registry: {unknown}"
        if folder.unfinished:
            yield folder.name, f"unfinished files: {list(folder.unfinished)}"


def _reports_installed(one: Synced) -> bool:
    names = {wheel["wheel_name"] for wheel in one.says.get("installed", ())}
    return one.says.get("environment") == one.environment and names == {name for name, _ in one.wheels}


def _by_name(changes: Sequence[Change]) -> dict[str, list[Change]]:
    grouped: dict[str, list[Change]] = {}
    for change in changes:
        grouped.setdefault(change.name, []).append(change)
    return grouped


def _package(wheel_name: str) -> str:
    return wheel_name.partition("-")[0]


def _version(wheel_name: str) -> int:
    return int(wheel_name.split("-")[1].partition(".")[0])
