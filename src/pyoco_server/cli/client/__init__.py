"""`pyoco-client`: submits, shows, watches and cancels runs from a terminal or a script. Uses only the SDK."""
