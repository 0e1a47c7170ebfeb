"""Ids of strategies, and the two spellings of a request's id."""

from __future__ import annotations

import re
from typing import NewType

from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.errors import ArtifactNotFound, InvalidRequest, RunNotFound

StrategyId = NewType("StrategyId", str)
# A request's id as 26 characters of Crockford's base32.
Ulid = NewType("Ulid", str)

MAX_STRATEGY_ID_CHARS = 128

_STRATEGY = re.compile(r"[a-z0-9._-]+", re.ASCII)
_ARTIFACT = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}-[0-9]{4}-[0-9]{1,4}", re.ASCII)
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)}
_ULID_CHARS = 26
_BITS = 128


def is_strategy_id(text: str) -> bool:
    """Whether the text is an id of a strategy: a part of paths and file names, where `.` and `..` are special."""
    return len(text) <= MAX_STRATEGY_ID_CHARS and _STRATEGY.fullmatch(text) is not None and text not in (".", "..")


def parse_strategy_id(text: str) -> StrategyId:
    if not is_strategy_id(text):
        raise InvalidRequest(f"a strategy id is 1 to {MAX_STRATEGY_ID_CHARS} of the characters a-z 0-9 . _ -")
    return StrategyId(text)


def ulid_of(run_id: RunId) -> Ulid:
    """The id of an execution as a ULID: the same 128 bits."""
    bits = int(run_id.replace("-", ""), 16)
    return Ulid("".join(_ALPHABET[bits >> shift & 31] for shift in range(_BITS - 3, -1, -5)))


def run_id_of(ulid: str) -> RunId:
    """The execution with this id; any text that is no ULID is an unknown request."""
    letters = ulid.upper()
    if len(letters) != _ULID_CHARS or not _VALUES.keys() >= set(letters) or _VALUES[letters[0]] > 7:
        raise RunNotFound("there is no request with this id")
    bits = 0
    for letter in letters:
        bits = bits << 5 | _VALUES[letter]
    digits = f"{bits:032x}"
    return RunId("-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])))


def node_of(number: int) -> NodeId:
    """The node of a batch; batches count from 1."""
    return NodeId(f"batch-{number:04}")


def number_of(node_id: NodeId) -> int:
    """The number of the batch of a node that `node_of` named."""
    return int(node_id.removeprefix("batch-"))


def artifact_id(request_id: RunId, number: int, place: int) -> str:
    """The id of a report of a batch: the same whenever the batch is read again."""
    return f"{ulid_of(request_id)}-{number:04}-{place}"


def request_of_artifact(artifact: str) -> RunId:
    """The request to which an artifact belongs; any other text is an unknown artifact."""
    if not _ARTIFACT.fullmatch(artifact):
        raise ArtifactNotFound
    return run_id_of(artifact[:26])
