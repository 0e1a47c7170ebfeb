"""The OpenAPI document and its reference page."""
