"""Kills processes of a running system under load, then checks its invariants."""
