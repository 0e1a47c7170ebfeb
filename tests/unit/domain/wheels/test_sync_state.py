"""Manifests survive a round trip or are refused; reports of a sync are bounded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import orjson
import pytest
from msgspec import structs

from pyoco_server.domain.wheels.requirements import LeftOut
from pyoco_server.domain.wheels.sync_state import (
    NOTHING_INSTALLED,
    InstalledSet,
    Manifest,
    SyncReport,
    WheelSyncState,
    report_to_plain,
)

TOOLS = WheelSyncState(
    wheel_name="tools-1.0-py3-none-any.whl",
    package_name="tools",
    package_version="1.0",
    nuid="n1",
    size_bytes=123,
    sha256_hex="00ff",
    tags=("gpu",),
    installed_at=1_700_000_000.25,
)
INSTALLED = Manifest(schema_version=1, sets=(InstalledSet(tags=("cpu", "gpu"), environment="e1", wheels=(TOOLS,)),))
OTHER = InstalledSet(tags=("x",), environment="e2", wheels=())


@pytest.mark.parametrize("manifest", [NOTHING_INSTALLED, INSTALLED, INSTALLED.with_set(OTHER)])
def test_a_manifest_survives_storage(manifest: Manifest) -> None:
    assert msgspec.json.decode(msgspec.json.encode(manifest), type=Manifest) == manifest


def test_a_wheel_in_the_manifest_has_the_fields_of_the_contract() -> None:
    ((state,),) = [one["wheels"] for one in orjson.loads(msgspec.json.encode(INSTALLED))["sets"]]

    assert state == {
        "wheel_name": "tools-1.0-py3-none-any.whl",
        "package_name": "tools",
        "package_version": "1.0",
        "nuid": "n1",
        "size_bytes": 123,
        "sha256_hex": "00ff",
        "tags": ["gpu"],
        "installed_at": 1_700_000_000.25,
    }


@pytest.mark.parametrize(
    "plain", [None, 1, [], {}, {"schema_version": 2, "sets": []}, {"schema_version": 1, "sets": [{}]}]
)
def test_an_invalid_manifest_is_refused(plain: Any) -> None:
    with pytest.raises(ValueError):
        msgspec.json.decode(orjson.dumps(plain), type=Manifest)


def test_workers_with_other_tags_keep_their_set() -> None:
    changed = INSTALLED.with_set(OTHER).with_set(structs.replace(OTHER, environment=None))

    assert changed.find(INSTALLED.sets[0]) == INSTALLED.sets[0]
    assert changed.environments() == {"e1"}


def test_reports_of_many_wheels_and_long_errors_are_bounded() -> None:
    many = SyncReport(
        at=1.0,
        result="partial",
        environment="e1",
        installed=[replace(TOOLS, wheel_name=f"w{number}.whl") for number in range(5_000)],
        failed=[LeftOut(wheel_name="w.whl", reason="x" * 100_000)] * 500,
        skipped=[LeftOut(wheel_name="w.whl", reason="x" * 100_000)] * 500,
        error="x" * 100_000,
        err_id="ERR-PYOCO-0024",
    )

    report = report_to_plain(many)

    assert (report["installed_count"], report["failed_count"], report["skipped_count"]) == (5_000, 500, 500)
    assert len(orjson.dumps(report)) < 64 * 1024


def test_the_end_of_a_long_error_is_reported() -> None:
    report = SyncReport(at=1.0, result="failed", environment=None, error="x" * 1_000 + " no space left")

    assert report_to_plain(report)["error"].endswith("no space left")
