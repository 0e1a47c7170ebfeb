"""`pyoco-client`: submit, look at, watch and cancel runs from a terminal or a script, through the SDK and only so."""
