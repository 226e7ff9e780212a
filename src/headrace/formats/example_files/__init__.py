"""Folders in which every file is one example: ``.npy`` with a manifest or class folders, ``.npz`` with one array per feature."""
