"""The fleet: what workers say of themselves, and what may be concluded from it. Pure."""
