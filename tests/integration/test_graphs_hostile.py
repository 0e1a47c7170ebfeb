"""Hostile graphs over HTTP are refused with a short response."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from support.executions import code_of

MIB = 1024 * 1024
YAML = {"Content-Type": "application/yaml"}
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
)


def edges(count: int) -> list[list[str]]:
    """`count` different edges without a cycle, between two hundred nodes and one that does not exist."""
    names = [f"{number:x}" for number in range(202)]
    return [[a, b] for place, a in enumerate(names) for b in names[place + 1 :]][:count]


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"nodes: [a]", "for YAML send Content-Type: application/yaml"),
        (b'{"nodes": ["\\ud800"]}', "not JSON"),
        (b'{"nodes": [{"id": "a", "params": {"x": NaN}}]}', "not JSON"),
        (b'{"nodes": [{"id": "a", "params": {"x": 18446744073709551616}}]}', "would be rounded"),
        (f'{{"nodes": [{{"id": "a", "type": "wait", "prompt": {nested(80)}}}]}}'.encode(), "nested deeper than 64"),
        (nested(100_000).encode(), "not JSON"),
        (json.dumps({"nodes": ["a"], "title": "x" * MIB})[: MIB - 1].encode(), "not JSON"),
        (json.dumps({"nodes": ["a"], "x" * (MIB - 100): 1}).encode(), "xxx: Extra inputs are not permitted"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_invalid_body_gets_a_short_response(client: httpx.AsyncClient, body: bytes, words: str) -> None:
    response = await client.put("/graphs/release", content=body)

    assert code_of(response) == (422, "INVALID_GRAPH")
    assert words in response.json()["error"]["message"]
    assert len(response.content) < 1_500


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "aliases"),
        ("nodes: " + nested(200_000), "nested deeper than 32"),
        ("nodes: [" + "a, " * 300_000 + "]", "more than 100000 values"),
        ("nodes: [a]\nedges:\n" + "".join(f"- ['{a}', '{b}']\n" for a, b in edges(20_001)), "at most 20000 items"),
        ("nodes: [" + "x" * (MIB - 100) + "]", "at most 128 characters"),
    ],
    ids=lambda value: value if len(value) < 40 else "",
)
async def test_invalid_yaml_gets_a_short_response(client: httpx.AsyncClient, text: str, words: str) -> None:
    response = await client.put("/graphs/release", content=text.encode(), headers=YAML)

    assert code_of(response) == (422, "INVALID_GRAPH")
    assert words in response.json()["error"]["message"]
    assert len(response.content) < 1_500


@pytest.mark.parametrize("headers", [{}, YAML])
@pytest.mark.parametrize("body", [b"[" * (MIB + 1), b'{"nodes": ["' + b"x" * MIB + b'"]}'])
async def test_a_body_above_the_limit_is_not_read(
    client: httpx.AsyncClient, body: bytes, headers: dict[str, str]
) -> None:
    response = await client.put("/graphs/release", content=body, headers=headers)

    assert code_of(response) == (413, "REQUEST_TOO_LARGE")


async def test_a_body_with_too_many_values_is_not_parsed(client: httpx.AsyncClient) -> None:
    response = await client.put("/graphs/release", content=b'{"nodes": [' + b"[]," * 300_000 + b"[]]}")

    assert response.status_code == 413
    assert "more values" in response.json()["error"]["message"]


async def test_large_graphs_are_stored_and_concurrent_hostile_ones_are_not(client: httpx.AsyncClient) -> None:
    names = [f"{number:x}" for number in range(202)]
    large: dict[str, Any] = {"nodes": names, "edges": edges(19_000)}
    text = "\n".join([f"nodes: {names}", "edges:", *(f"- ['{a}', '{b}']" for a, b in large["edges"])])

    responses = await asyncio.gather(
        client.put("/graphs/large", json=large),
        client.put("/graphs/large", content=text.encode(), headers=YAML),
        *(client.put(f"/graphs/bomb{n}", content=BOMB.encode(), headers=YAML) for n in range(8)),
        client.get("/health"),
    )

    assert sorted(response.status_code for response in responses) == [200, 200, 201, *[422] * 8]
    listed = (await client.get("/graphs")).json()["items"]
    assert [(item["graphId"], item["version"], item["edgeCount"]) for item in listed] == [("large", 1, 19_000)]
