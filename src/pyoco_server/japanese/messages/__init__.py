"""Details of errors and messages of programs, by area."""
