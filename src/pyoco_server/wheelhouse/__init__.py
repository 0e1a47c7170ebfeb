"""Pure: wheels as the registry holds them, and what follows from their names, versions and tags."""
