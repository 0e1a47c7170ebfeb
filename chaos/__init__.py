"""Kills processes of a running system under load, then checks that no promise was broken; it mends nothing."""
