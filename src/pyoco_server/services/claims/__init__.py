"""Hand out ready nodes to workers that claim them, one holder per lease."""
