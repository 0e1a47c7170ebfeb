"""Callers, scopes, API keys, token claims and WebSocket tickets."""
