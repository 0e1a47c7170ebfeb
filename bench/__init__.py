"""Measures this product beside pyoco-server 0.5.1 and beside the limits of the machine; it judges only the budgets."""
