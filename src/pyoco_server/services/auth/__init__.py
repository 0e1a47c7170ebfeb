"""Authenticate callers; issue and cache API keys and tickets."""
