"""Encoded images to pixels and back."""
