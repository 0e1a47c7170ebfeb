"""Wheel files: names, versions, contents, history and sync state."""
