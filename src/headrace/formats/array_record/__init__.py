"""array_record."""
