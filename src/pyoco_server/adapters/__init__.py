"""Ports made real: NATS, SQLite, the file system and processes; no rule of the core is decided here."""
