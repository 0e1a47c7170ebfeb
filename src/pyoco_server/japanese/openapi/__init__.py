"""Texts of the OpenAPI document, by API."""
