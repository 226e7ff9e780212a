"""Batches by iteration."""
