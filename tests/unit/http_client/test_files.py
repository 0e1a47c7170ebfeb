"""Local files: wheels that are replaced atomically, and logs that are resumed or rewritten."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from pyoco_server.http_client.files import LogFile, open_log, replacing


class Pipe(io.BytesIO):
    """A file that cannot seek."""

    def seekable(self) -> bool:
        return False


def test_a_download_gets_the_mode_of_the_umask_without_changing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the umask belongs to all threads of the process"))

    with replacing(tmp_path, "demo.whl") as file:
        file.write(b"wheel")

    assert (tmp_path / "demo.whl").read_bytes() == b"wheel"
    assert (tmp_path / "demo.whl").stat().st_mode == plain.stat().st_mode


def test_a_failed_download_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "demo.whl"
    path.write_bytes(b"old")

    def break_off() -> None:
        with replacing(path, "demo.whl") as file:
            file.write(b"half")
            raise ConnectionError

    with pytest.raises(ConnectionError):
        break_off()
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("demo.whl", b"old")]


def test_a_file_with_the_beginning_is_resumed(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"one\n")

    with open_log(path, resume=True) as log:
        assert log.size == 4
        log.write(4, b"two\n")
        log.write(8, b"three\n")
        log.finish()

    assert path.read_bytes() == b"one\ntwo\nthree\n"
    assert (log.written, log.size) == (10, 14)


def test_a_response_from_the_start_rewrites_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"something else, and longer\n")

    with open_log(path, resume=True) as log:
        log.write(0, b"one\n")
        log.finish()

    assert (path.read_bytes(), log.size) == (b"one\n", 4)


def test_without_resuming_an_empty_log_empties_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    for pieces in ([], [b"one\n"]):
        path.write_bytes(b"old and longer\n")
        with open_log(path, resume=False) as log:
            assert log.size == 0
            for piece in pieces:
                log.write(log.size, piece)
            log.finish()

        assert path.read_bytes() == b"".join(pieces)


def test_without_resuming_the_old_file_stays_until_the_first_byte(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"old\n")

    with pytest.raises(ConnectionError), open_log(path, resume=False):
        raise ConnectionError

    assert path.read_bytes() == b"old\n"


def test_a_file_without_bytes_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"

    with pytest.raises(ConnectionError), open_log(path, resume=True):
        raise ConnectionError

    assert not path.exists()


def test_bytes_received_before_an_error_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"

    def break_off() -> None:
        with open_log(path, resume=True) as log:
            log.write(0, b"one\n")
            raise ConnectionError

    with pytest.raises(ConnectionError):
        break_off()
    assert path.read_bytes() == b"one\n"


def test_an_open_file_stays_open() -> None:
    file = io.BytesIO(b"one\n")

    with open_log(file, resume=True) as log:
        log.write(4, b"two\n")
        log.finish()

    assert file.getvalue() == b"one\ntwo\n"


def test_a_pipe_gets_no_byte_twice() -> None:
    pipe = Pipe()
    log = LogFile(pipe, resume=True)

    log.write(0, b"one\n")
    log.write(0, b"on")
    log.write(2, b"e\ntwo\n")
    log.finish()

    assert pipe.getvalue() == b"one\ntwo\n"
    assert log.written == 8
