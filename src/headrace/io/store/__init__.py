"""Remote objects: requests, ranges, listings, uploads."""
