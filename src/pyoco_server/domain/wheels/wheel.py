"""A wheel in the registry: its file name, its tags, and which version may follow which."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from pyoco_server.errors import InvalidRequest, WheelVersionConflict


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """One stored file. `nuid` is new with each upload; without tags it is for every worker."""

    name: str
    size_bytes: int
    bucket: str
    nuid: str
    modified: float
    sha256_hex: str | None
    tags: tuple[str, ...] = ()

    def is_for(self, tags: frozenset[str]) -> bool:
        """Whether a worker that serves these tags is meant."""
        return not self.tags or not tags.isdisjoint(self.tags)


MAX_NAME_CHARS = 200
MAX_TAGS = 64
EXAMPLE = "demo-1.0-py3-none-any.whl"

# A file name and nothing else: no folder, no space, nothing that a terminal or a shell reads in its own way.
_PLAIN = re.compile(r"[A-Za-z0-9_.!+-]+\.whl", re.ASCII)
_TAG = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelName:
    """What a file name says: `package` is normalised, so that Demo_Pkg and demo-pkg are the same."""

    file_name: str
    package: str
    version: Version


def parse_wheel_name(text: str) -> WheelName:
    """What pip would read in the name; `InvalidRequest` for one that it would not take, or that is no plain name."""
    if len(text) > MAX_NAME_CHARS or not _PLAIN.fullmatch(text):
        raise InvalidRequest(f"{text[:80]!r} is not the name of a wheel, as in {EXAMPLE}")
    try:
        package, version, _, _ = parse_wheel_filename(text)
    except InvalidWheelFilename as error:
        raise InvalidRequest(f"{text!r} is not the name of a wheel, as in {EXAMPLE}: {error}"[:300]) from error
    return WheelName(file_name=text, package=package, version=version)


def normal_package(name: str) -> str:
    """The name of a package as all its spellings have it (PEP 503)."""
    return canonicalize_name(name)


def parse_tags(text: str) -> tuple[str, ...]:
    """Tags joined by commas, each once and in their order; nothing at all means no tags."""
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    strange = next((word for word in words if not _TAG.fullmatch(word)), None)
    if strange is not None:
        raise InvalidRequest(
            f"tags: {strange[:80]!r} is no tag; tags are joined by commas, each of 1 to 64 of A-Z a-z 0-9 _ -"
        )
    tags = tuple(dict.fromkeys(words))
    if len(tags) > MAX_TAGS:
        raise InvalidRequest(f"tags: {len(tags)} are more than {MAX_TAGS}")
    return tags


def check_newer(new: WheelName, present: Sequence[Wheel]) -> None:
    """Refuse a version that is not newer than every registered one of the same package, whatever its file is called.

    So there is one file per version: a second platform's wheel, or another build number, needs a version of its own.
    """
    for wheel in present:
        name = _parsed(wheel)
        if name is not None and name.package == new.package and name.version >= new.version:
            raise WheelVersionConflict(
                f"{new.file_name}: {wheel.name} is registered, and only a version above {name.version} may follow",
                wheel=new.file_name,
                registered=wheel.name,
            )


def latest(wheels: Sequence[Wheel]) -> list[Wheel]:
    """Of each package the wheels of its newest version, by name; what is not named like a wheel is left out."""
    newest: dict[str, list[tuple[WheelName, Wheel]]] = {}
    for wheel in wheels:
        name = _parsed(wheel)
        if name is None:
            continue
        rivals = newest.get(name.package, [])
        if not rivals or name.version > rivals[0][0].version:
            newest[name.package] = [(name, wheel)]
        elif name.version == rivals[0][0].version:
            rivals.append((name, wheel))
    return sorted((wheel for rivals in newest.values() for _, wheel in rivals), key=lambda wheel: wheel.name)


def _parsed(wheel: Wheel) -> WheelName | None:
    """None for something that another client of the broker has put there."""
    try:
        return parse_wheel_name(wheel.name)
    except InvalidRequest:
        return None
