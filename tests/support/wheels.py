"""Wheels for tests, good and bad ones, made in memory or (large ones) on a disk."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

NAME = "demo-1.0-py3-none-any.whl"


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
            # With a time of its own, not that of the clock: made twice it is the same.
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
