"""The HTTP APIs, one package or module per resource."""
