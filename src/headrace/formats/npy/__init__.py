"""NumPy arrays in .npy files."""
