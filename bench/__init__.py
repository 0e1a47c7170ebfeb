"""Measures this product, pyoco-server 0.5.1 and the limits of the machine; it checks only the budgets."""
