"""Statistics of the values of each feature, of a sample or of all examples."""
