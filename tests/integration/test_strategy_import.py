"""`pyoco-server-admin strategies import` on a real nats-server."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import orjson

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.pdca.ids import StrategyId
from pyoco_server.services.context import Stores


async def imported(config: NatsBackendConfig, path: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    words = ("-m", "pyoco_server.cli.admin", "strategies", "import", str(path), "--nats-url", config.nats_url)
    program = await asyncio.create_subprocess_exec(
        sys.executable, *words, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await program.communicate()
    return program.returncode or 0, out.decode(), err.decode()


async def test_a_file_is_imported_and_its_rejected_rows_are_reported(
    config: NatsBackendConfig, stores: Stores, tmp_path: Path
) -> None:
    path = tmp_path / "strategies.csv"
    path.write_text("id,title,instrument\na,A,X\nB,B,X\nc,C,X\n", encoding="utf-8")

    tried = await imported(config, path, "--dry-run", "--output", "json")
    nothing = await stores.strategies.get("team-a", StrategyId("a"))
    first = await imported(config, path, "--tenant", "team-a")
    again = await imported(config, path, "--tenant", "team-a", "--output", "json")

    assert (tried[0], orjson.loads(tried[1])["created"], nothing.strategy) == (1, 0, None)
    assert (first[0], first[1].splitlines()) == (
        1,
        ["line 3: a strategy id is 1 to 128 of the characters a-z 0-9 . _ -"],
    )
    assert "2 strategies created, 0 changed, 0 as before; 1 rows rejected" in first[2]
    records = await stores.audit.read(after=0, upto=(await stores.audit.state()).last_sequence)
    assert [*{record.key: record.outcome for record in records}.values()] == ["made", "void"]
    assert {(record.action, record.actor.kind, record.tenant_id, str(record.detail)) for record in records} == {
        ("strategy.import", "operator", "team-a", "{'strategies': 2}")
    }
    stored = await stores.strategies.get("team-a", StrategyId("c"))
    assert stored.strategy is not None
    assert orjson.loads(again[1]) == {
        "rows": 3,
        "accepted": 2,
        "created": 0,
        "changed": 0,
        "rejected": [{"line": 3, "reason": "a strategy id is 1 to 128 of the characters a-z 0-9 . _ -"}],
    }
