"""`/executions`: commands, events and nodes (execution, node, RFC 3339); and `/waits`, what waits for a person."""
