"""Tar archives in the layout of WebDataset."""
