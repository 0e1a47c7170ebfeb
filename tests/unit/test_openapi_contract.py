"""docs/openapi.yaml is what gateways serve, and no client of the last release is broken by it."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import httpx
from scripts.check_openapi import document_in
from scripts.openapi_changes import breaking_changes

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


async def test_a_gateway_serves_the_committed_document() -> None:
    transport = httpx.ASGITransport(app=create_app(NatsBackendConfig()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        served = (await client.get("/openapi.json")).json()

    assert served == document_in(DOCS / "openapi.yaml")


def test_clients_of_the_last_release_work_with_the_present_document() -> None:
    released, present = document_in(DOCS / "openapi-released.yaml"), document_in(DOCS / "openapi.yaml")

    found = [str(change) for change in breaking_changes(released, present, today=datetime.now(UTC).date())]

    assert found == [], "CONTRIBUTING.md says what to do: Compatibility of the HTTP API"


def test_the_script_compares_two_files() -> None:
    released, present = DOCS / "openapi-released.yaml", DOCS / "openapi.yaml"

    done = subprocess.run(
        [ROOT / "scripts" / "check-openapi", released, present], capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.strip().endswith(": compatible")
