"""Objects in stores and behind URLs: requests, ranges, listings, uploads."""
