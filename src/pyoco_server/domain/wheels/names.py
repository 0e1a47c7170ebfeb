"""File names of wheels, and the tags they are registered with: parsed once, refused when they are not normal."""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from pyoco_server.errors import InvalidRequest

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
