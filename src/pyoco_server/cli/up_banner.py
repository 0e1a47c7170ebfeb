"""What `pyoco-server up` prints when it serves: addresses, where the data is, and commands that work when pasted.

Commands name folders by their full paths: they are pasted into another terminal, in another folder. Secrets are left
out; the text behind such a command says which ones it needs.
"""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import orjson

from pyoco_server.cli.output import localized
from pyoco_server.config import BY_NAME, LOCAL_DATA_FOLDER, NatsBackendConfig, user_data_folder
from pyoco_server.http_api.middleware.hosts import HostCheck

CREDENTIALS = ("nats_token", "nats_creds_file", "nats_tls_ca_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """`host` is what was asked for, `bound` the address and port that it became; `url_given`: by --nats-url."""

    config: NatsBackendConfig
    host: str
    bound: tuple[str, int]
    embedded: bool
    url_given: bool
    has_dashboard: bool

    def started(self) -> Iterator[str]:
        """Where it is, and what else there is to know at the start."""
        if self.has_dashboard:
            yield f"dashboard: {self.address}/"
        if self.embedded:
            folder = _full(self.config.data_folder)
            where = localized(f"data in {folder}", f"データ: {folder}")
            if not self.config.data_dir and self.config.data_folder == LOCAL_DATA_FOLDER:
                where += localized(", found here", "、現在のフォルダにあるもの")
        else:
            url = self.config.nats_url_without_secrets
            where = localized(f"data in NATS at {url}", f"データ: NATS {url}")
        yield localized(
            f"pyoco-server is up: {self.address}   (Ctrl-C stops it; {where})",
            f"pyoco-server を起動しました: {self.address}   （Ctrl-C で停止、{where}）",
        )
        for other in self._other_folders():
            command = shlex.join(["pyoco-server", "up", "--data-dir", _full(other)])
            yield localized(
                f"earlier runs are in another folder: {command}", f"以前の run は別のフォルダにあります: {command}"
            )
        yield from self._names()
        if "api_key" in self.config.auth_ways:
            command = shlex.join(["pyoco-server-admin", "api-key", "create", "--tenant", "team-a", *self._broker()])
            note = self._note("auth_pepper")
            yield localized(f"requests need a key: {command}{note}", f"リクエストには key が必要です: {command}{note}")

    def with_worker(self, flow_names: Sequence[str], *, has_resolver: bool) -> Iterator[str]:
        """How to run a first flow, now that a worker takes runs."""
        curl = f"curl -s {self.address}"
        try_it, then = localized("try", "実行例"), localized("then", "一覧")
        if has_resolver:
            # The flow of the examples has a parameter; of others nothing is known.
            name = "hello" if "hello" in flow_names else next(iter(flow_names), "FLOW")
            body = orjson.dumps({"flow_name": name, "params": {"name": "world"} if name == "hello" else {}}).decode()
            json = f"-H 'Content-Type: application/json' -d {shlex.quote(body)}"
            yield f"{try_it}: {curl}/runs{self._credentials()} {json}"
        else:
            if not os.path.isfile("flow.yaml"):
                first = localized("first", "準備")
                yield f"{first}: {shlex.join(['pyoco-client', 'init', os.getcwd()])}"
            form = shlex.quote(f"workflow=@{_full(Path('flow.yaml'))}")
            yield f"{try_it}: {curl}/runs/yaml{self._credentials()} -F {form} -F flow_name=hello"
        yield f"{then}: {curl}/runs{self._credentials()}"

    def without_worker(self) -> Iterator[str]:
        """How to start one."""
        command = shlex.join(["pyoco-worker", *self._broker()])
        yield f"{localized('next', '次のコマンド')}: {command}{self._note()}"
        yield localized(
            "      for flows in Python add --flow-resolver flows.py:resolve",
            "      Python の flow には --flow-resolver flows.py:resolve を付けます",
        )

    @property
    def address(self) -> str:
        """The address for programs on this machine."""
        host, port = self.bound
        if ip_address(host).is_unspecified:
            host = "::1" if ":" in host else "127.0.0.1"
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def _names(self) -> Iterator[str]:
        """Which setting lets it be called by a name, if it listens where others may want to."""
        name = self.host if _is_name(self.host) else socket.gethostname()
        if _is_name(self.host) or not ip_address(self.bound[0]).is_loopback:
            allowed = HostCheck(self.config).refusal([(b"host", name.encode("ascii", "replace"))]) is None
            if not allowed:
                setting = shlex.quote(f"PYOCO_HTTP_ALLOWED_HOSTS={name}")
                yield localized(
                    f"it answers to IP addresses and localhost; to other names with {setting}",
                    f"IP アドレスと localhost で応答します。ほかの名前で使うには {setting} を設定してください",
                )

    def _other_folders(self) -> Iterator[Path]:
        if not self.embedded:
            return
        named = os.environ.get(BY_NAME["data_dir"].variable, "").strip()
        seen = {os.path.realpath(self.config.data_folder)}
        for folder in (*([Path(named)] if named else []), LOCAL_DATA_FOLDER, user_data_folder()):
            if os.path.realpath(folder) not in seen and _has_runs(folder, self.config.events_stream):
                seen.add(os.path.realpath(folder))
                yield folder

    def _broker(self) -> list[str]:
        """The options that lead other programs to the same broker."""
        if self.embedded:
            return ["--data-dir", _full(self.config.data_folder)]
        return ["--nats-url", self.config.nats_url_without_secrets] if self.url_given else []

    def _note(self, *more: str) -> str:
        """Which settings a command needs that are not on its line."""
        own = () if self.embedded else CREDENTIALS
        needed = [BY_NAME[name].variable for name in (*own, *more) if getattr(self.config, name)]
        if not self.embedded and not self.url_given:
            needed.insert(0, BY_NAME["nats_url"].variable)
        if not self.embedded and self.url_given and self.config.nats_url != self.config.nats_url_without_secrets:
            needed.insert(0, localized("credentials in place of ***", "認証情報（*** の部分）"))
        names = ", ".join(needed)
        return localized(f"   (with the same {names})", f"   （同じ {names} が必要です）") if needed else ""

    def _credentials(self) -> str:
        if "api_key" in self.config.auth_ways:
            return f" -H '{self.config.http_api_key_header}: KEY'"
        return " -H 'Authorization: Bearer TOKEN'" if self.config.auth_ways else ""


def _full(path: Path) -> str:
    return os.path.abspath(path)


def _is_name(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return host.lower() != "localhost"
    return False


def _has_runs(folder: Path, stream: str) -> bool:
    """Whether the stream of events has messages there."""
    try:
        blocks = folder.glob(f"nats/jetstream/*/streams/{stream}/msgs/*.blk")
        return any(block.stat().st_size for block in blocks)
    except OSError:
        return False
