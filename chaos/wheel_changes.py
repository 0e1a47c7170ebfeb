"""Changes the wheel registry through the SDK during the faults, and records the outcome.

There are three tiny packages. A change uploads a new version with its own stamp, one that pip cannot install, or a file
that is not a wheel; or it deletes a version, sometimes followed by an upload of the same version with other bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from chaos.journal import Change, Happened, Journal
from chaos.plan import RED_TAG, WHEELS_TAG, Plan
from pyoco_server.http_client import AsyncPyocoHttpClient
from pyoco_server.http_client.errors import (
    GatewayUnreachable,
    InvalidRequest,
    NotFound,
    PyocoHttpError,
    Unavailable,
    WheelVersionConflict,
)
from support.wheels import NOT_A_WHEEL, installable

# The tags of each package: all workers, workers that sync wheels, some of those.
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "chaos_alpha": (),
    "chaos_beta": (WHEELS_TAG,),
    "chaos_gamma": (RED_TAG,),
}
RETRY_SEC = 15.0
FINAL_RETRY_SEC = 60.0
HEAVY_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltWheel:
    """A generated wheel; one that is not `good` cannot be installed."""

    name: str
    stamp: str
    data: bytes
    good: bool = True


def build_wheel(package: str, version: int, build: int, *, good: bool = True, ballast: bytes = b"") -> BuiltWheel:
    """Builds a wheel that pip installs, or one with a missing requirement; `ballast` slows down its transfer."""
    stamp = f"{version}.0/{build}"
    files: dict[str, str | bytes] = {
        f"{package}/ballast.bin": ballast,
        f"{package}/__init__.py": f"STAMP = {stamp!r}\n",
        f"{package}/stamp.txt": stamp,
    }
    name, data = installable(
        package, f"{version}.0", files, requires=() if good else ("a-package-that-does-not-exist",)
    )
    return BuiltWheel(name=name, stamp=stamp, data=data, good=good)


class WheelChanger:
    """Makes one change at a time, and waits for its outcome."""

    def __init__(self, plan: Plan, urls: Mapping[str, str], journal: Journal) -> None:
        self._urls = urls
        self._journal = journal
        self._rng = random.Random(f"wheels {plan.seed}")
        self._versions = dict.fromkeys(PACKAGES, 0)
        self._builds = count(1)
        self._registered: dict[str, BuiltWheel] = {}
        self._lock = asyncio.Lock()
        self._retry_sec = RETRY_SEC

    async def begin(self) -> None:
        """Uploads the first version of each package."""
        for package in PACKAGES:
            await self._upload(package)

    async def change(self) -> str:
        """Makes a random change and returns the package."""
        async with self._lock:
            package = self._rng.choice(list(PACKAGES))
            choices = (self._upload, self._upload_bad, self._upload_invalid, self._delete)
            await self._rng.choices(choices, (60, 12, 8, 20))[0](package)
            return package

    async def upload(self) -> str:
        """Uploads a new version of a random package."""
        async with self._lock:
            package = self._rng.choice(list(PACKAGES))
            await self._upload(package)
            return package

    async def close(self) -> None:
        """Deletes the wheels that cannot be installed and uploads a final version of each package."""
        self._retry_sec = FINAL_RETRY_SEC
        async with self._lock:
            for made in [made for made in self._registered.values() if not made.good]:
                await self._delete_wheel(made)
            for package in PACKAGES:
                await self._upload(package)

    async def _upload(self, package: str) -> None:
        self._versions[package] += 1
        ballast = self._rng.randbytes(self._rng.choice((0, HEAVY_BYTES)))
        await self._register(
            package, build_wheel(package, self._versions[package], next(self._builds), ballast=ballast)
        )

    async def _upload_bad(self, package: str) -> None:
        self._versions[package] += 1
        await self._register(package, build_wheel(package, self._versions[package], next(self._builds), good=False))

    async def _upload_invalid(self, package: str) -> None:
        name = f"{package}-{self._versions[package] + 1}.0-py3-none-any.whl"
        how = await self._request(lambda client: client.upload_wheel(name, NOT_A_WHEEL, tags=PACKAGES[package]))
        if how == "done":
            self._journal.note_fault("error responses", name, "registered, though it is not a wheel")

    async def _delete(self, package: str) -> None:
        registered = [made for made in self._registered.values() if made.name.startswith(f"{package}-")]
        if not registered:
            return
        made = self._rng.choice((registered[-1], self._rng.choice(registered)))
        await self._delete_wheel(made)
        if made is registered[-1] and made.good and self._rng.random() < 0.5:
            version = int(made.stamp.partition(".")[0])
            await self._register(package, build_wheel(package, version, next(self._builds)))

    async def _register(self, package: str, made: BuiltWheel) -> None:
        tags = PACKAGES[package]
        how = await self._request(lambda client: client.upload_wheel(made.name, made.data, tags=tags))
        self._note(made, "upload", how, tags)
        if how != "refused":
            self._registered[made.name] = made

    async def _delete_wheel(self, made: BuiltWheel) -> None:
        how = await self._request(lambda client: client.delete_wheel(made.name))
        self._note(made, "delete", how)
        if how != "unknown":
            self._registered.pop(made.name, None)

    async def _request(self, call: Callable[[AsyncPyocoHttpClient], Awaitable[object]]) -> Happened:
        gateway = self._rng.choice(list(self._urls))
        try:
            async with AsyncPyocoHttpClient(
                self._urls[gateway], timeout=10.0, retry_within_sec=self._retry_sec
            ) as client:
                await call(client)
        except (GatewayUnreachable, Unavailable):
            return "unknown"
        except (WheelVersionConflict, InvalidRequest, NotFound):
            return "refused"
        except PyocoHttpError as error:
            self._journal.note_fault("error responses", gateway, f"wheels: {error}")
            return "unknown"
        return "done"

    def _note(self, made: BuiltWheel, what: str, how: Happened, tags: Sequence[str] = ()) -> None:
        self._journal.answers[f"wheel {what} {how}"] += 1
        self._journal.changes.append(
            Change(
                what="upload" if what == "upload" else "delete",
                name=made.name,
                stamp=made.stamp,
                sha256=hashlib.sha256(made.data).hexdigest(),
                tags=tuple(tags),
                good=made.good,
                how=how,
            )
        )
