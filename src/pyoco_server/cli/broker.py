"""Which NATS a command line speaks with: the one that was named, or that of a `pyoco-server up` on this machine."""

from __future__ import annotations

from pyoco_server.bootstrap import locate_broker
from pyoco_server.cli.output import say
from pyoco_server.config import NatsBackendConfig, names_a_broker


def find_broker(config: NatsBackendConfig, nats_url: str | None, data_dir: str | None) -> NatsBackendConfig:
    """The config with its address; a guess is said to be one, or people would read of an address that nobody gave."""
    if nats_url is not None or (data_dir is None and names_a_broker()):
        return config
    found = locate_broker(config)
    if found is config:
        say(
            f"no pyoco-server is up with the data folder {config.data_dir}; trying {config.nats_url_without_secrets} "
            "(--data-dir or --nats-url names another)"
        )
    return found
