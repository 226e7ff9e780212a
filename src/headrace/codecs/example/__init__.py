"""example."""
