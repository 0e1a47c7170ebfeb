"""Responses shared by all APIs: errors, event streams, downloads."""
