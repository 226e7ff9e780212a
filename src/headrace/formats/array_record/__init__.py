"""ArrayRecord and Riegeli files."""
