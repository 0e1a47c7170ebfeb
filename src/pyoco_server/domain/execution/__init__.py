"""The execution aggregate: commands, events, `decide`, `evolve`, snapshots and the stored form of commits."""
