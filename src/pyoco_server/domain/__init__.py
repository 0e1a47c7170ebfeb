"""The pure core: rules, records and queries without I/O, clocks or generated ids."""
