"""Ids and names, parsed once at the edge and trusted inside. They must be valid subject tokens, keys or path parts."""

from __future__ import annotations

import re
from typing import NewType

from pyoco_server.errors import InvalidRequest, RunNotFound

RunId = NewType("RunId", str)
NodeId = NewType("NodeId", str)
WorkerId = NewType("WorkerId", str)
InstanceId = NewType("InstanceId", str)
CommitId = NewType("CommitId", str)

# Of an execution.
MAX_NODES = 2_000
MAX_NODE_ID_CHARS = 128
MAX_LABEL_CHARS = 128

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Clients resolve these in paths before they send a request.
_DOT_SEGMENTS = (".", "..")
_WORKER = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}")


def parse_run_id(text: str) -> RunId:
    """A run id (UUID); any other text is an unknown run."""
    lowered = text.lower()
    if not _UUID.fullmatch(lowered):
        raise RunNotFound(run_id=text[:64])
    return RunId(lowered)


def is_run_id(text: str) -> bool:
    """Whether the text is a run id in its canonical form."""
    return _UUID.fullmatch(text) is not None


def parse_tag(text: str) -> str:
    """A routing tag: one token of a subject."""
    if not _TOKEN.fullmatch(text):
        raise InvalidRequest("tag must be 1 to 64 of the characters A-Z a-z 0-9 _ -")
    return text


def is_tag(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def parse_label(text: str) -> str:
    """A label of a run: free text on one line that can be part of a path."""
    if not 1 <= len(text) <= MAX_LABEL_CHARS or not text.isprintable() or text in _DOT_SEGMENTS:
        raise InvalidRequest(f"a tag in tags must be 1 to {MAX_LABEL_CHARS} printable characters, and not . or ..")
    return text


def parse_worker_id(text: str) -> WorkerId:
    """A worker id: a key of the registry, so no dots at its ends and no spaces."""
    if not _WORKER.fullmatch(text) or text.endswith(".") or ".." in text:
        raise InvalidRequest("worker id must be 1 to 128 of the characters A-Z a-z 0-9 _ - and single dots inside")
    return WorkerId(text)


def is_path_name(text: str) -> bool:
    """Whether the text is a valid name of a graph or node: it is part of paths, where `.` and `..` are special."""
    return 1 <= len(text) <= MAX_NODE_ID_CHARS and text.isprintable() and "/" not in text and text not in _DOT_SEGMENTS
