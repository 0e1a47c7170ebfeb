"""A file that is written to a disk while it arrives."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from pyoco_server.errors import InvalidRequest, UploadNotKept
from pyoco_server.http_api.protocol import spool
from pyoco_server.http_api.protocol.spool import Spool


async def anything_goes(_name: str) -> None:
    return None


async def test_all_that_came_is_read_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "WRITE_BYTES", 4)
    async with Spool("wheel", anything_goes) as taken:
        for piece in (b"ab", b"cdef", b"", b"g"):
            taken.take(piece)
            await taken.flush()
        file, size = await taken.whole()

        assert (file.read(), size) == (b"abcdefg", 7)
    assert file.closed


async def test_nothing_at_all_is_an_empty_file() -> None:
    async with Spool("wheel", anything_goes) as taken:
        file, size = await taken.whole()

        assert (file.read(), size) == (b"", 0)


async def test_the_name_is_asked_about_once_and_before_anything_is_written() -> None:
    asked: list[str] = []

    async def refuse(name: str) -> None:
        asked.append(name)
        raise InvalidRequest("no")

    async with Spool("wheel", refuse) as taken:
        taken.begin("a.whl")
        taken.take(b"bytes")
        with pytest.raises(InvalidRequest):
            await taken.flush(everything=True)

        assert taken.file is None
    assert asked == ["a.whl"]


async def test_nothing_has_a_name_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with Spool("wheel", anything_goes) as taken:
        taken.take(b"bytes")
        await taken.whole()

        assert os.listdir(tmp_path) == []


async def test_a_disk_that_cannot_be_written_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    async with Spool("wheel", anything_goes) as taken:
        taken.take(b"bytes")
        with pytest.raises(UploadNotKept, match="TMPDIR"):
            await taken.whole()


async def test_a_disk_that_is_full_is_told_of_once_however_little_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Path("/dev/full").open("w+b"))  # noqa: SIM115
    async with Spool("wheel", anything_goes) as taken:
        taken.take(b"a few bytes")
        with pytest.raises(UploadNotKept, match="No space left"):
            await taken.whole()
