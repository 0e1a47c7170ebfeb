"""The wheels a worker has installed: its manifest (WheelSyncState) and the report `wheel_sync`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from pyoco_server.domain.wheels.requirements import Candidate, LeftOut

SCHEMA_VERSION = 1

Result = Literal["ok", "partial", "failed"]

# A worker's record is read with every list of workers, so it names only some wheels and counts the rest.
MOST_INSTALLED, MOST_LEFT_OUT = 50, 10
LONGEST_REASON = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelSyncState:
    """One installed wheel."""

    wheel_name: str
    package_name: str
    package_version: str
    nuid: str
    size_bytes: int
    sha256_hex: str
    tags: tuple[str, ...]
    installed_at: float

    @classmethod
    def of(cls, candidate: Candidate, installed_at: float) -> WheelSyncState:
        return cls(
            wheel_name=candidate.name,
            package_name=candidate.package,
            package_version=str(candidate.version),
            nuid=candidate.wheel.nuid,
            size_bytes=candidate.wheel.size_bytes,
            sha256_hex=candidate.sha256_hex,
            tags=candidate.wheel.tags,
            installed_at=installed_at,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledSet:
    """The environment for workers with the same tags (None: the worker's own), and the wheels in it."""

    environment: str | None
    wheels: tuple[WheelSyncState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All sets that are installed in one sync folder, by the tags of their workers."""

    sets: Mapping[tuple[str, ...], InstalledSet]

    def with_set(self, tags: tuple[str, ...], installed: InstalledSet) -> Manifest:
        return Manifest(sets={**self.sets, tags: installed})

    def environments(self) -> frozenset[str]:
        return frozenset(one.environment for one in self.sets.values() if one.environment is not None)


NOTHING_INSTALLED = Manifest(sets={})


def manifest_to_plain(manifest: Manifest) -> dict[str, Any]:
    sets = [{"tags": tags, **msgspec.to_builtins(installed)} for tags, installed in sorted(manifest.sets.items())]
    return {"schema_version": SCHEMA_VERSION, "sets": sets}


def manifest_from_plain(plain: Any) -> Manifest:
    """The stored manifest; `ValueError` when it is not one."""
    stored = msgspec.convert(plain, _StoredManifest)
    return Manifest(
        sets={one.tags: InstalledSet(environment=one.environment, wheels=one.wheels) for one in stored.sets}
    )


class _StoredSet(msgspec.Struct):
    tags: tuple[str, ...]
    environment: str | None
    wheels: tuple[WheelSyncState, ...]


class _StoredManifest(msgspec.Struct):
    schema_version: Literal[1]
    sets: tuple[_StoredSet, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """The result of the last sync, and the environment that runs use since."""

    at: float
    result: Result
    environment: str | None
    installed: Sequence[WheelSyncState] = ()
    skipped: Sequence[LeftOut] = ()
    failed: Sequence[LeftOut] = ()
    error: str | None = None
    err_id: str | None = None


def report_to_plain(report: SyncReport) -> dict[str, Any]:
    """`wheel_sync` of a worker (contract: WorkerRecord), bounded."""
    plain: dict[str, Any] = {
        "enabled": True,
        "last_sync_at": report.at,
        "last_result": report.result,
        "environment": report.environment,
        "installed_count": len(report.installed),
        "installed": [
            {
                "wheel_name": state.wheel_name,
                "package_name": state.package_name,
                "package_version": state.package_version,
            }
            for state in report.installed[:MOST_INSTALLED]
        ],
        "skipped_count": len(report.skipped),
        "skipped": _left_out(report.skipped),
        "failed_count": len(report.failed),
        "failed": _left_out(report.failed),
    }
    if report.error is not None:
        plain["error"] = shortened(report.error)
    if report.err_id is not None:
        plain["err_id"] = report.err_id
    return plain


def shortened(reason: str) -> str:
    """The end of a reason: tools print the cause last."""
    reason = reason.strip()
    return reason if len(reason) <= LONGEST_REASON else "…" + reason[1 - LONGEST_REASON :]


def _left_out(wheels: Sequence[LeftOut]) -> list[dict[str, str]]:
    return [{"wheel_name": one.wheel_name, "reason": shortened(one.reason)} for one in wheels[:MOST_LEFT_OUT]]
