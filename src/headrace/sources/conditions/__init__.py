"""Conditions that pick examples, and what they mean."""
