"""`/jobs` and `/tags`: jobs with logs and tags (RFC 3339)."""
