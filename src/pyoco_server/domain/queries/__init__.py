"""Rows, queries, page tokens, histograms and explanations: what lists and metrics are made of."""
