"""How records are framed in files: one module for each format."""
