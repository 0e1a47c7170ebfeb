"""Read, search and download run logs."""
