"""ASGI middleware: request ids, limits, authentication, timing."""
