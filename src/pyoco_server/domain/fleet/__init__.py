"""Worker records, announced flows and the states derived from them."""
