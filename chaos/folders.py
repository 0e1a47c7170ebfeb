"""Reads the sync folders in which workers keep wheels and environments."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import orjson

from chaos.evidence import SyncFolder


def environments_in(folder: Path) -> dict[str, bool]:
    """All environments, and whether each is complete."""
    found: dict[str, bool] = {}
    with suppress(FileNotFoundError):  # workers add and remove them concurrently
        for environment in (folder / "envs").iterdir():
            found[environment.name] = (environment / "environment.json").exists()
    return found


def wheels_in_use(folder: Path, tags: tuple[str, ...]) -> tuple[str | None, frozenset[tuple[str, str]]]:
    """The environment for these tags and the (name, sha256) of its wheels, from the manifest."""
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
