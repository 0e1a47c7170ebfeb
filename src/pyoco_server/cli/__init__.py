"""The command lines `pyoco-server`, `pyoco-worker`, `pyoco-server-admin` and `pyoco-client`."""
