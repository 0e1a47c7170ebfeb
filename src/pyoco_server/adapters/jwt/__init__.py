"""Verification of JSON Web Tokens: keys and claims."""
