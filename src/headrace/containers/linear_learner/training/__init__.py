"""Training: from channels to weights."""
