"""Who may do what: scopes, callers, keys. Pure: it reads no clock and stores nothing."""
