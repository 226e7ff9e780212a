"""Amazon's algorithms by the names of the SDK."""
