"""The HTTP gateway; `create_app` is the factory for any ASGI server."""

from pyoco_server.http_api.app import create_app

__all__ = ["create_app"]
