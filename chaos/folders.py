"""Reads the folders in which workers keep wheels and environments; it changes nothing and judges nothing."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import orjson

from chaos.evidence import SyncFolder


def environments_in(folder: Path) -> dict[str, bool]:
    """Every environment, and whether it is complete."""
    found: dict[str, bool] = {}
    with suppress(FileNotFoundError):  # they come and go while we look
        for environment in (folder / "envs").iterdir():
            found[environment.name] = (environment / "environment.json").exists()
    return found


def wheels_in_use(folder: Path, tags: tuple[str, ...]) -> tuple[str | None, frozenset[tuple[str, str]]]:
    """The environment of the workers with these tags, and the (name, sha256) of its wheels, by the manifest."""
    manifest = folder / ".installed.json"
    plain = orjson.loads(manifest.read_bytes()) if manifest.exists() else {"sets": []}
    for one in plain["sets"]:
        if one["tags"] == sorted(tags):
            return one["environment"], frozenset((wheel["wheel_name"], wheel["sha256_hex"]) for wheel in one["wheels"])
    return None, frozenset()


def read(folder: Path) -> SyncFolder:
    files = folder / "files"
    return SyncFolder(
        name=folder.name,
        environments=environments_in(folder),
        files=sorted(file.name for file in files.iterdir()) if files.is_dir() else [],
        unfinished=sorted(file.name for file in (*folder.glob("*.new"), *files.glob("*/*.part"))),
    )
