"""The wheels a worker has installed: its manifest (WheelSyncState) and the report `wheel_sync`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from pyoco_server.domain.wheels.requirements import Candidate, LeftOut

Result = Literal["ok", "partial", "failed"]

# A worker's record is read with every list of workers, so it names only some wheels and counts the rest.
MOST_INSTALLED, MOST_LEFT_OUT = 50, 10
LONGEST_REASON = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelSyncState:
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


class InstalledSet(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The environment for workers with these tags (None: the worker's own), and the wheels in it.

    It is for the runs of a tenant with wheels of its own, or of all others.
    """

    tags: tuple[str, ...]
    environment: str | None
    wheels: tuple[WheelSyncState, ...]
    tenant_id: str | None = None

    @property
    def key(self) -> tuple[tuple[str, ...], str]:
        return self.tags, self.tenant_id or ""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """All sets that are installed in one sync folder, as it is stored there."""

    schema_version: Literal[1]
    sets: tuple[InstalledSet, ...]

    def find(self, like: InstalledSet) -> InstalledSet | None:
        return next((one for one in self.sets if one.key == like.key), None)

    def with_set(self, installed: InstalledSet) -> Manifest:
        """With this set; a tenant's without an environment is left out."""
        sets = [one for one in self.sets if one.key != installed.key]
        if installed.tenant_id is None or installed.environment is not None:
            sets.append(installed)
        return replace(self, sets=tuple(sorted(sets, key=lambda one: one.key)))

    def environments(self) -> frozenset[str]:
        return frozenset(one.environment for one in self.sets if one.environment is not None)


NOTHING_INSTALLED = Manifest(schema_version=1, sets=())


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
