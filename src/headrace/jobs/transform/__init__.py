"""Batch transform: the objects of a prefix through a model, and what it answers beside them."""
