"""Graphs as documents: parsing, validation and the stored form."""
