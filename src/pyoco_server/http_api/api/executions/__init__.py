"""`/executions` and `/waits`: commands, events and nodes (RFC 3339)."""
