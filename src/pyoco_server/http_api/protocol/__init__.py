"""Parsing of HTTP and WebSocket input: bodies, headers, ranges, forms, limits."""
