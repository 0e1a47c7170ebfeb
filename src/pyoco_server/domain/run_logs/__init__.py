"""Lines and chunks of run logs, and positions in them."""
