"""Types of what a gateway answers: plain dicts at run time, which are not validated."""
