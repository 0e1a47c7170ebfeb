"""The index of runs in a SQLite file: a cache of the snapshot bucket, never the only place where anything is kept."""
