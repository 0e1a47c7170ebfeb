"""The command lines: words in, processes or requests out."""
