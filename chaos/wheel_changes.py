"""Changes the registry of wheels through the SDK while everything else is killed, and writes down what became of it.

Three tiny packages; of each a version is uploaded that knows its own stamp, now and then one that pip will refuse or
that is no wheel at all, and now and then one is deleted, and perhaps its version uploaded again with other bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import random
import zipfile
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

# The tags of each package: for everybody, for those that run flows with wheels, for some of them.
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "chaos_alpha": (),
    "chaos_beta": (WHEELS_TAG,),
    "chaos_gamma": (RED_TAG,),
}
TRY_FOR_SEC = 15.0
TRY_AT_LAST_FOR_SEC = 60.0
HEAVY_BYTES = 4 * 1024 * 1024
NO_WHEEL = b"PK\x03\x04 and then nothing that belongs to it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A wheel, made here; one that is not `good` cannot be installed."""

    name: str
    stamp: str
    data: bytes
    good: bool = True


def make(package: str, version: int, build: int, *, good: bool = True, ballast: bytes = b"") -> Made:
    """A wheel that pip installs, or one that needs what nobody has; with ballast it takes its time on the way."""
    stamp = f"{version}.0/{build}"
    folder = f"{package}-{version}.0.dist-info"
    needs = "" if good else "Requires-Dist: a-package-that-nobody-has\n"
    files: dict[str, str | bytes] = {
        f"{package}/ballast.bin": ballast,
        f"{package}/__init__.py": f"STAMP = {stamp!r}\n",
        f"{package}/stamp.txt": stamp,
        f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}.0\n{needs}",
        f"{folder}/WHEEL": "Wheel-Version: 1.0\nGenerator: chaos\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{folder}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{folder}/RECORD"))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return Made(name=f"{package}-{version}.0-py3-none-any.whl", stamp=stamp, data=target.getvalue(), good=good)


class Wheelwright:
    """Changes one thing after the other: what became of the last one is known before the next."""

    def __init__(self, plan: Plan, urls: Mapping[str, str], journal: Journal) -> None:
        self._urls = urls
        self._journal = journal
        self._rng = random.Random(f"wheelwright {plan.seed}")
        self._versions = dict.fromkeys(PACKAGES, 0)
        self._builds = count(1)
        self._there: dict[str, Made] = {}
        self._one_at_a_time = asyncio.Lock()
        self._patience_sec = TRY_FOR_SEC

    async def begin(self) -> None:
        """The first version of each package."""
        for package in PACKAGES:
            await self._upload(package)

    async def change(self) -> str:
        """One change by the seed's choice; says of what."""
        async with self._one_at_a_time:
            package = self._rng.choice(list(PACKAGES))
            choices = (self._upload, self._upload_bad, self._upload_nonsense, self._delete)
            await self._rng.choices(choices, (60, 12, 8, 20))[0](package)
            return package

    async def upload(self) -> str:
        """A new version of something."""
        async with self._one_at_a_time:
            package = self._rng.choice(list(PACKAGES))
            await self._upload(package)
            return package

    async def close(self) -> None:
        """Quiet is here: what cannot be installed goes, and of each package a last version comes."""
        self._patience_sec = TRY_AT_LAST_FOR_SEC
        async with self._one_at_a_time:
            for made in [made for made in self._there.values() if not made.good]:
                await self._delete_wheel(made)
            for package in PACKAGES:
                await self._upload(package)

    async def _upload(self, package: str) -> None:
        self._versions[package] += 1
        ballast = self._rng.randbytes(self._rng.choice((0, HEAVY_BYTES)))
        await self._register(package, make(package, self._versions[package], next(self._builds), ballast=ballast))

    async def _upload_bad(self, package: str) -> None:
        self._versions[package] += 1
        await self._register(package, make(package, self._versions[package], next(self._builds), good=False))

    async def _upload_nonsense(self, package: str) -> None:
        name = f"{package}-{self._versions[package] + 1}.0-py3-none-any.whl"
        how = await self._ask(lambda client: client.upload_wheel(name, NO_WHEEL, tags=PACKAGES[package]))
        if how == "done":
            self._journal.note_fault("answers that were errors", name, "registered, though it is no wheel")

    async def _delete(self, package: str) -> None:
        registered = [made for made in self._there.values() if made.name.startswith(f"{package}-")]
        if not registered:
            return
        made = self._rng.choice((registered[-1], self._rng.choice(registered)))
        await self._delete_wheel(made)
        if made is registered[-1] and made.good and self._rng.random() < 0.5:
            version = int(made.stamp.partition(".")[0])
            await self._register(package, make(package, version, next(self._builds)))

    async def _register(self, package: str, made: Made) -> None:
        tags = PACKAGES[package]
        how = await self._ask(lambda client: client.upload_wheel(made.name, made.data, tags=tags))
        self._note(made, "upload", how, tags)
        if how != "refused":
            self._there[made.name] = made

    async def _delete_wheel(self, made: Made) -> None:
        how = await self._ask(lambda client: client.delete_wheel(made.name))
        self._note(made, "delete", how)
        if how != "unknown":
            self._there.pop(made.name, None)

    async def _ask(self, what: Callable[[AsyncPyocoHttpClient], Awaitable[object]]) -> Happened:
        gateway = self._rng.choice(list(self._urls))
        try:
            async with AsyncPyocoHttpClient(
                self._urls[gateway], timeout=10.0, retry_within_sec=self._patience_sec
            ) as client:
                await what(client)
        except (GatewayUnreachable, Unavailable):
            return "unknown"
        except (WheelVersionConflict, InvalidRequest, NotFound):
            return "refused"
        except PyocoHttpError as error:
            self._journal.note_fault("answers that were errors", gateway, f"wheels: {error}")
            return "unknown"
        return "done"

    def _note(self, made: Made, what: str, how: Happened, tags: Sequence[str] = ()) -> None:
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
