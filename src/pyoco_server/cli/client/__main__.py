"""`python -m pyoco_server.cli.client`."""

from pyoco_server.cli.client.program import main

main()
