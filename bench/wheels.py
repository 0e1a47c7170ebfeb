"""Time until runners have twenty new wheels, compared with a bare pip and the same files."""

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from bench.connection import StepFailed
from bench.systems import Ours
from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker.runner_pool.pool import RunnerPool
from pyoco_server.worker.wheels.wheel_sync import WheelSync
from support.wheels import installable

WHEELS = 20
FUNCTIONS = 300


def sync_beside_pip(stack: Ours) -> tuple[float, float]:
    """Seconds from the read of the registry to a warm runner with the wheels, and seconds of the bare pip."""
    with tempfile.TemporaryDirectory(prefix="pyoco-bench-wheels-") as name:
        folder = Path(name)
        files = [_wheel(folder, f"bench_wheel_{number}") for number in range(WHEELS)]
        bare_sec = _bare_pip(folder, files)
        url, token = stack.nats()
        config = NatsBackendConfig(
            nats_url=url, nats_token=token or "", wheel_sync_enabled=True, wheel_sync_dir=str(folder / "sync")
        )
        return asyncio.run(_sync(config, files)), bare_sec


async def _sync(config: NatsBackendConfig, files: list[Path]) -> float:
    # No index, as for the bare pip.
    os.environ["PIP_NO_INDEX"] = "1"
    pool = RunnerPool("", 1, lambda run_id, line: None)
    async with open_stores(config, name="bench") as stores:
        sync = WheelSync(stores.wheels, pool, config, ["default"], stores.clock)
        await sync.start()
        try:
            for file in files:
                await stores.wheels.put(file.name, _pieces(file), tags=())
            began = time.perf_counter()
            await sync.sync()
            taken_sec = time.perf_counter() - began
        finally:
            await pool.close()
            for wheel in await stores.wheels.all():
                await stores.wheels.delete(wheel)
    if sync.wheel_sync is None or sync.wheel_sync["installed_count"] != len(files):
        raise StepFailed(f"not all wheels were installed: {sync.wheel_sync}")
    return taken_sec


async def _pieces(file: Path) -> AsyncIterator[bytes]:
    yield await asyncio.to_thread(file.read_bytes)


def _bare_pip(folder: Path, files: list[Path]) -> float:
    empty = folder / "empty"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(empty)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(empty / "bin" / "python"), "install", "--quiet"]
    began = time.perf_counter()
    subprocess.run([*pip, "--no-index", "--no-input", "--disable-pip-version-check", *map(str, files)], check=True)
    return time.perf_counter() - began


def _wheel(folder: Path, package: str) -> Path:
    """A package of one module with some hundred functions, to unpack and to compile."""
    chance = random.Random(package)
    body = "".join(
        f"def f{number}(x):\n    return x * {chance.random()!r} + {chance.random()!r}\n\n\n"
        for number in range(FUNCTIONS)
    )
    name, data = installable(package, files={f"{package}/__init__.py": body})
    (folder / name).write_bytes(data)
    return folder / name
