"""The nats-server that `pyoco-server up` starts: binary, configuration, data folder, lifetime."""
