"""Chunks of a log ⇄ bytes: columnar JSON, one document per chunk instead of one per line.

    {"v": 1, "attempt": 2, "line": 1001, "byte": 48213, "bytes": 512, "prev": 77, "at": 1767225600.25,
     "us": [0, 12, 31], "tasks": [null, "load"], "kinds": [[2, 1, 0, 1], [1, 0, 3, 2]], "text": ["…", "…", "…"]}

`us` are microseconds after `at`; each of `kinds` is a run of lines: [count, index of task, of stream, of level]. The
orders of streams and levels are fixed for ever: new ones are appended.
"""

from __future__ import annotations

from typing import Any

import orjson

from pyoco_server.domain.run_logs.lines import LEVELS, STREAMS, LogChunk, LogLine

VERSION = 1
_STREAM_INDEX = {stream: index for index, stream in enumerate(STREAMS)}
_LEVEL_INDEX = {level: index for index, level in enumerate(LEVELS)}


class NotAChunk(ValueError):
    """the stored bytes are not a chunk of a log that this version knows"""


def encode(chunk: LogChunk) -> bytes:
    """The stored form of a chunk; its texts must not contain lone surrogates."""
    lines = chunk.lines
    first_at = lines[0].at if lines else 0.0
    tasks: dict[str | None, int] = {}
    kinds: list[list[int]] = []
    before: tuple[str | None, str, str] | None = None
    for _, task, stream, level, _ in lines:
        kind = (task, stream, level)
        if kind == before:
            kinds[-1][0] += 1
            continue
        before = kind
        kinds.append([1, tasks.setdefault(task, len(tasks)), _STREAM_INDEX[stream], _LEVEL_INDEX[level]])
    return orjson.dumps(
        {
            "v": VERSION,
            "attempt": chunk.attempt,
            "line": chunk.first_line,
            "byte": chunk.first_byte,
            "bytes": chunk.size_bytes,
            "prev": chunk.previous,
            "at": first_at,
            "us": [round((line.at - first_at) * 1_000_000) for line in lines],
            "tasks": list(tasks),
            "kinds": kinds,
            "text": [line.text for line in lines],
        }
    )


def decode(data: bytes) -> LogChunk:
    """The stored chunk; `NotAChunk` if it is not one. Unknown fields are ignored."""
    try:
        plain = orjson.loads(data)
        if plain["v"] != VERSION:
            raise NotAChunk(f"version {plain['v']!r:.20} is not known")
        return LogChunk(
            attempt=plain["attempt"],
            first_line=plain["line"],
            first_byte=plain["byte"],
            previous=plain["prev"],
            lines=_lines(plain),
            size_bytes=plain["bytes"],
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, IndexError) as error:
        raise NotAChunk(f"{type(error).__name__}: {error}") from error


def _lines(plain: dict[str, Any]) -> tuple[LogLine, ...]:
    first_at, tasks = plain["at"], plain["tasks"]
    lines: list[LogLine] = []
    texts = iter(zip(plain["us"], plain["text"], strict=True))
    for count, task, stream, level in plain["kinds"]:
        common = tasks[task], STREAMS[stream], LEVELS[level]
        for _, (us, text) in zip(range(count), texts, strict=False):
            lines.append(LogLine(first_at + us / 1_000_000, *common, text))
    return tuple(lines)
