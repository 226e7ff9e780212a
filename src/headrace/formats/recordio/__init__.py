"""recordio."""
