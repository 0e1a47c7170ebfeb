"""Idempotency keys, canonical request digests and records."""
