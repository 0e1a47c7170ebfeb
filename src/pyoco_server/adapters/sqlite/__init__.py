"""The run index in a SQLite file: a cache of the snapshot bucket that can be deleted and rebuilt at any time."""
