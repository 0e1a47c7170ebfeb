"""The commands of `pyoco-client`, one module per subject. Each reads its arguments, calls the SDK and prints."""
