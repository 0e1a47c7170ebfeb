"""The text of the embedded nats-server's configuration file; it reads and writes nothing itself."""

from __future__ import annotations

from typing import Literal

from pyoco_server.adapters.embedded_nats.data_folder import DataFolder

FREE_PORT = -1  # any free port, for nats-server; 0 means its default, 4222

Sync = Literal["always", "interval"]
# JetStream's own default syncs every two minutes: an acknowledged write can be lost when the power fails.
SYNC_LINE: dict[Sync, str | None] = {"always": "  sync_interval: always", "interval": None}

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def render_config(
    folder: DataFolder,
    *,
    listen_host: str,
    client_port: int,
    http_port: int | None,
    sync: Sync,
    max_store_bytes: int | None,
) -> str:
    """One entry per line, because entries inside a block must not share one."""
    lines = [
        'server_name: "pyoco"',
        f"host: {quoted(listen_host)}",
        f"port: {client_port}",
        # The monitoring pages know no password: they never leave this machine.
        None if http_port is None else f'http: "127.0.0.1:{http_port}"',
        f"ports_file_dir: {quoted(str(folder.path))}",
        f"log_file: {quoted(str(folder.log_file))}",
        "logfile_size_limit: 16MB",
        "logfile_max_num: 4",
        "logtime: true",
        "authorization {",
        f"  token: {quoted(folder.token)}",
        "}",
        "jetstream {",
        f"  store_dir: {quoted(str(folder.store))}",
        SYNC_LINE[sync],
        None if max_store_bytes is None else f"  max_file_store: {max_store_bytes}",
        "}",
    ]
    return "\n".join(line for line in lines if line is not None) + "\n"


def quoted(text: str) -> str:
    """The text as a string of nats-server's configuration language."""
    return f'"{text.translate(_ESCAPES)}"'
