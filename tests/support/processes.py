"""Real processes: their descendants, their end, and their ports. Signals are sent by pid only."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterable

import psutil


def wait_for_exit(pid: int, patience_sec: float = 30.0) -> bool:
    """Whether the process, which need not be a child, ends in time."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], patience_sec)[0])
    finally:
        os.close(process)


def find_process(pid: int) -> psutil.Process | None:
    """The process with this pid, if it is alive. It is never equal to a later one with the same pid."""
    try:
        process = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None
    return process if is_alive(process) else None


def is_alive(process: psutil.Process) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def descendants_of(pid: int) -> list[psutil.Process]:
    """All living descendants of the process."""
    try:
        return [process for process in psutil.Process(pid).children(recursive=True) if is_alive(process)]
    except psutil.NoSuchProcess:
        return []


def descendants(pid: int) -> list[int]:
    return [process.pid for process in descendants_of(pid)]


def kill_after(processes: Iterable[psutil.Process], patience_sec: float) -> list[str]:
    """Kills those that do not end in time, and returns their names."""
    killed = []
    for process in processes:
        if is_alive(process) and not wait_for_exit(process.pid, patience_sec) and is_alive(process):
            killed.append(process.name())
            process.kill()
    return killed


def command_of(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""


def reserve_port() -> socket.socket:
    """A bound socket that keeps its port from other programs; a server may listen on it, again and again."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


def port_of(reserved: socket.socket) -> int:
    port: int = reserved.getsockname()[1]
    return port
