"""Help texts of the four programs."""
