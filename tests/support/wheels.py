"""Wheels, valid and invalid, built in memory; large ones on disk."""

from __future__ import annotations

import base64
import hashlib
import io
import struct
import zipfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from pyoco_server.domain.wheels.wheel import Wheel, object_name
from pyoco_server.ports import WheelStore

NAME = "demo-1.0-py3-none-any.whl"
NOT_A_WHEEL = b"PK\x03\x04 and then nothing that belongs to it"


def wheel_name(package: str = "demo", version: str = "1.0", tag: str = "py3-none-any") -> str:
    return f"{package}-{version}-{tag}.whl"


def described(package: str = "demo", version: str = "1.0") -> dict[str, bytes]:
    """The files that every wheel has."""
    folder = f"{package}-{version}.dist-info"
    return {
        f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n\nA demo.\n".encode(),
        f"{folder}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{folder}/RECORD": b"",
    }


def wheel(package: str = "demo", version: str = "1.0", files: Mapping[str, bytes] | None = None) -> bytes:
    """A wheel of one module, or of these files."""
    return zipped({f"{package}.py": b"VALUE = 1\n", **(files or {}), **described(package, version)})


def zipped(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in files.items():
            # A fixed time: built twice, it has the same bytes.
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=method)
    return target.getvalue()


def large_wheel(path: Path, size_bytes: int, package: str = "demo", version: str = "1.0") -> Path:
    """A wheel of at least that size, written piece by piece; its bytes do not repeat."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in described(package, version).items():
            archive.writestr(name, data)
        with archive.open(f"{package}/data.bin", "w", force_zip64=True) as data_file:
            for number in range(size_bytes // 65_536 + 1):
                data_file.write(struct.pack("<Q", number) * 8192)
    return path


def installable(
    package: str,
    version: str = "1.0",
    files: Mapping[str, str | bytes] | None = None,
    *,
    requires: Sequence[str] = (),
    scripts: Mapping[str, str] | None = None,
    tag: str = "py3-none-any",
) -> tuple[str, bytes]:
    """The name and the bytes of a wheel that pip installs; without files it has one module with its version."""
    folder = f"{package}-{version}.dist-info"
    required = "".join(f"Requires-Dist: {one}\n" for one in requires)
    plain: dict[str, str | bytes] = {
        **(files if files is not None else {f"{package}.py": f"VERSION = {version!r}\n"}),
        f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n{required}",
        f"{folder}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    if scripts:
        lines = "".join(f"{name} = {target}\n" for name, target in scripts.items())
        plain[f"{folder}/entry_points.txt"] = f"[console_scripts]\n{lines}"
    content = {name: data.encode() if isinstance(data, str) else data for name, data in plain.items()}
    rows = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in content.items()]
    content[f"{folder}/RECORD"] = "\n".join([*rows, f"{folder}/RECORD,,"]).encode()
    return wheel_name(package, version, tag), zipped(content)


def broken(package: str, version: str = "1.0") -> tuple[str, bytes]:
    """A file with the name of a wheel that pip cannot open."""
    return wheel_name(package, version), NOT_A_WHEEL


async def put(store: WheelStore, wheel: tuple[str, bytes], *tags: str, tenant_id: str | None = None) -> Wheel:
    name, content = wheel
    return await store.put(object_name(name, tenant_id), _pieces(content), tags=tags)


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
