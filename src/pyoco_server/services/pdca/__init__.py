"""The PDCA API: the registry of strategies, requests, and the driver that lets an engine run their batches."""
