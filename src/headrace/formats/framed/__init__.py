"""framed."""
