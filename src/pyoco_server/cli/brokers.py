"""What the commands of `pyoco-server-admin` share: which broker they talk to, and what they print."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from typer import Option

from pyoco_server.errors import InvalidUsage

if TYPE_CHECKING:
    from pyoco_server.config import NatsBackendConfig

T = TypeVar("T")

NatsUrl = Annotated[str | None, Option("--nats-url", help="Where NATS is (PYOCO_NATS_URL).")]
DataDir = Annotated[str | None, Option("--data-dir", help="Data folder of a local `pyoco-server up`.")]
OutputOption = Annotated[Literal["json", "table"], Option("--output", help="What to print.")]


def with_broker(work: Callable[[NatsBackendConfig], Awaitable[T]], nats_url: str | None, data_dir: str | None) -> T:
    """The result of the work with the settings of the broker that is meant."""
    import asyncio

    from pyoco_server.bootstrap import locate_broker
    from pyoco_server.cli.process import find_broker
    from pyoco_server.config import NatsBackendConfig

    config = NatsBackendConfig.from_env(nats_url=nats_url, data_dir=data_dir)
    if nats_url is None and data_dir is not None and locate_broker(config) is config:
        raise InvalidUsage(f"no pyoco-server is up with the data folder {data_dir}; start it, or give --nats-url")
    config = find_broker(config, nats_url, data_dir)

    async def do() -> T:
        return await work(config)

    return asyncio.run(do())
