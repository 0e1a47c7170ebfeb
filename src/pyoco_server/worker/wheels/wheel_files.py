"""Downloaded wheels, stored by sha256, which is verified before each use."""

from __future__ import annotations

import asyncio
import email.parser
import hashlib
import os
import shutil
import zipfile
from collections.abc import Collection
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from pyoco_server.domain.wheels.contents import check_contents
from pyoco_server.domain.wheels.requirements import Candidate
from pyoco_server.domain.wheels.wheel import parse_wheel_name
from pyoco_server.errors import WheelCorrupt
from pyoco_server.ports import WheelStore

UNFINISHED = ".part"


class WheelFiles:
    """`<folder>/<sha256>/<file name>`: pip requires the name, and two uploads may share it."""

    def __init__(self, folder: Path, store: WheelStore) -> None:
        self._folder = folder
        self._store = store

    async def fetch(self, candidate: Candidate) -> Path:
        """The local file with the registry's sha256; `WheelCorrupt` if the download differs.

        `InvalidRequest` if the content is not a wheel of that name: the registry may have been filled unchecked.
        """
        file = self._folder / candidate.sha256_hex / candidate.name
        if await asyncio.to_thread(_sha256_of, file) != candidate.sha256_hex:
            await self._get(candidate, file)
        await asyncio.to_thread(_check, file)
        return file

    async def _get(self, candidate: Candidate, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f"{file.name}.{os.getpid()}{UNFINISHED}")
        try:
            received = await self._download(candidate, temporary)
            if received != candidate.sha256_hex:
                raise WheelCorrupt(
                    f"{candidate.name} has sha256 {received}, and the registry says {candidate.sha256_hex}",
                    wheel_name=candidate.name,
                )
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)

    def collect(self, keep: Collection[str]) -> None:
        """Removes all wheels except those with these sums; the caller holds the lock of the folder."""
        for folder in self._folder.iterdir() if self._folder.is_dir() else ():
            if folder.name not in keep:
                shutil.rmtree(folder, ignore_errors=True)
            else:
                for unfinished in folder.glob(f"*{UNFINISHED}"):  # left by a worker that was killed
                    unfinished.unlink(missing_ok=True)

    async def _download(self, candidate: Candidate, file: Path) -> str:
        digest = hashlib.sha256()
        with file.open("wb") as target:
            async for piece in self._store.read(candidate.wheel):
                digest.update(piece)
                await asyncio.to_thread(target.write, piece)
        return digest.hexdigest()


def _sha256_of(file: Path) -> str | None:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _check(file: Path) -> None:
    with file.open("rb") as content:
        check_contents(content, file.stat().st_size, parse_wheel_name(file.name))


def required_by(file: Path) -> tuple[str, ...]:
    """The packages that a wheel requires; none if it cannot be read, which pip reports later."""
    try:
        with zipfile.ZipFile(file) as wheel:
            names = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA") and name.count("/") == 1]
            headers = email.parser.BytesParser().parsebytes(wheel.read(names[0]), headersonly=True)
            return tuple(Requirement(text).name for text in headers.get_all("Requires-Dist", []))
    except (
        OSError,
        ValueError,
        LookupError,
        NotImplementedError,
        RuntimeError,
        zipfile.BadZipFile,
        InvalidRequirement,
    ):
        return ()
