"""The four vocabularies of the one core; strangers to each other."""
