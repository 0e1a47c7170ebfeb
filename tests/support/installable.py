"""Wheels that pip takes, made in the test, and a registry in memory to put them into."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence

from pyoco_server.domain.wheels.wheel import Wheel
from pyoco_server.ports import WheelStore
from support.wheels import wheel_name, zipped


def installable(
    package: str,
    version: str = "1.0",
    files: Mapping[str, str] | None = None,
    *,
    requires: Sequence[str] = (),
    scripts: Mapping[str, str] | None = None,
    tag: str = "py3-none-any",
) -> tuple[str, bytes]:
    """The name and the bytes of a wheel; without files it is one module that knows its version."""
    folder = f"{package}-{version}.dist-info"
    required = "".join(f"Requires-Dist: {one}\n" for one in requires)
    plain = {
        **(files if files is not None else {f"{package}.py": f"VERSION = {version!r}\n"}),
        f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n{required}",
        f"{folder}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    if scripts:
        lines = "".join(f"{name} = {target}\n" for name, target in scripts.items())
        plain[f"{folder}/entry_points.txt"] = f"[console_scripts]\n{lines}"
    content = {name: text.encode() for name, text in plain.items()}
    rows = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in content.items()]
    content[f"{folder}/RECORD"] = "\n".join([*rows, f"{folder}/RECORD,,"]).encode()
    return wheel_name(package, version, tag), zipped(content)


def broken(package: str, version: str = "1.0") -> tuple[str, bytes]:
    """A file with the name of a wheel that pip cannot open."""
    return wheel_name(package, version), b"PK\x03\x04 and then nothing that belongs to it"


async def put(store: WheelStore, wheel: tuple[str, bytes], *tags: str) -> Wheel:
    name, content = wheel
    return await store.put(name, _pieces(content), tags=tags)


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
