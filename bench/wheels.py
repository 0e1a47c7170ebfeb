"""How long until runners have twenty new wheels, beside a bare pip with the same files; it judges nothing."""

import asyncio
import base64
import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

from bench.processes import StepFailed
from bench.systems import Ours
from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker.runner_pool.pool import RunnerPool
from pyoco_server.worker.wheels.wheel_sync import WheelSync

WHEELS = 20
FUNCTIONS = 300


def sync_beside_pip(stack: Ours) -> tuple[float, float]:
    """Seconds from the look at the registry to a warm runner with the wheels, and seconds of the bare pip."""
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
    # No index, as for the bare pip: what is measured is not somebody else's network.
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
    """A package of one module with some hundred functions: something to unpack and to compile."""
    chance = random.Random(package)
    body = "".join(
        f"def f{number}(x):\n    return x * {chance.random()!r} + {chance.random()!r}\n\n\n"
        for number in range(FUNCTIONS)
    )
    about = f"{package}-1.0.dist-info"
    content = {
        f"{package}/__init__.py": body,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{name},sha256={_digest(text)},{len(text.encode())}" for name, text in content.items()]
    file = folder / f"{package}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in content.items():
            archive.writestr(name, text)
        archive.writestr(f"{about}/RECORD", "\n".join([*rows, f"{about}/RECORD,,"]))
    return file


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
