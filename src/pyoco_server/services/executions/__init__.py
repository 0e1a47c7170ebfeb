"""Submit, command, cancel and read executions; the only write path."""
