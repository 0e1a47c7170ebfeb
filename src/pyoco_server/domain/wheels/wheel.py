"""A wheel in the registry: its file name, its tags, and which version may follow which."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from pyoco_server.errors import InvalidRequest, WheelVersionConflict


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """One stored wheel (contract: WheelArtifact). `nuid` is new per upload; without tags it is for every worker.

    Without a tenant it is shared: runs of every tenant use it.
    """

    name: str
    size_bytes: int
    bucket: str
    nuid: str
    modified: float
    sha256_hex: str | None
    tags: tuple[str, ...] = ()
    tenant_id: str | None = None

    @property
    def object_name(self) -> str:
        """The name in the store: tenants may have wheels of the same name."""
        return object_name(self.name, self.tenant_id)

    def is_visible_to(self, tenant_filter: str | None) -> bool:
        """Whether a caller sees it who may see this tenant only; None for one who may see all."""
        return tenant_filter is None or self.tenant_id in (None, tenant_filter)

    def is_for(self, tags: frozenset[str]) -> bool:
        """Whether workers that serve these tags should install it."""
        return not self.tags or not tags.isdisjoint(self.tags)


MAX_NAME_CHARS = 200
MAX_TAGS = 64
EXAMPLE = "demo-1.0-py3-none-any.whl"

# A file name only: no folder, no space, no characters that are special in a terminal or shell.
_PLAIN = re.compile(r"[A-Za-z0-9_.!+-]+\.whl", re.ASCII)
_TAG = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelName:
    """A parsed file name; `package` is normalised, so that Demo_Pkg and demo-pkg are the same."""

    file_name: str
    package: str
    version: Version


def object_name(name: str, tenant_id: str | None) -> str:
    # Neither a tenant nor the name of a wheel contains a slash. Older workers skip such a name.
    return name if tenant_id is None else f"{tenant_id}/{name}"


def split_object_name(text: str) -> tuple[str, str | None]:
    """The name and the tenant of a stored wheel."""
    tenant_id, slash, name = text.partition("/")
    return (name, tenant_id) if slash else (text, None)


def parse_wheel_name(text: str) -> WheelName:
    """The file name as pip parses it; `InvalidRequest` if pip would refuse it or it is not a plain file name."""
    if len(text) > MAX_NAME_CHARS or not _PLAIN.fullmatch(text):
        raise InvalidRequest(f"{text[:80]!r} is not the name of a wheel, as in {EXAMPLE}")
    try:
        package, version, _, _ = parse_wheel_filename(text)
    except InvalidWheelFilename as error:
        raise InvalidRequest(f"{text!r} is not the name of a wheel, as in {EXAMPLE}: {error}"[:300]) from error
    return WheelName(file_name=text, package=package, version=version)


def parse_tags(text: str) -> tuple[str, ...]:
    """Comma-separated tags, unique and in order; an empty text means no tags."""
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    unknown = next((word for word in words if not _TAG.fullmatch(word)), None)
    if unknown is not None:
        raise InvalidRequest(
            f"tags: {unknown[:80]!r} is not a tag; tags are separated by commas, each of 1 to 64 of A-Z a-z 0-9 _ -"
        )
    tags = tuple(dict.fromkeys(words))
    if len(tags) > MAX_TAGS:
        raise InvalidRequest(f"tags: {len(tags)} are more than {MAX_TAGS}")
    return tags


def check_newer(new: WheelName, present: Sequence[Wheel], tenant_id: str | None = None) -> None:
    """Refuse a version that is not newer than every registered version of the same package and owner.

    So there is one file per version: a wheel for another platform, or another build, needs its own version. A version
    with an epoch is refused, because no version without one could ever follow.
    """
    if new.version.epoch:
        raise InvalidRequest(
            f"{new.file_name}: a version with an epoch ({new.version.epoch}!) is refused, because no ordinary version "
            "could follow; build it without the epoch"
        )
    for wheel in present:
        if wheel.tenant_id != tenant_id:
            continue
        try:
            name = parse_wheel_name(wheel.name)
        except InvalidRequest:
            continue  # a file that another client of the broker has stored
        if name.package == new.package and name.version >= new.version:
            raise WheelVersionConflict(
                f"{new.file_name}: {wheel.name} is registered, and only a version above {name.version} may follow",
                wheel=new.file_name,
                registered=wheel.name,
            )
