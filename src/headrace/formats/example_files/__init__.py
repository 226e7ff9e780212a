"""Folders in which every file is one example: ``.npy`` with a manifest or class folders, ``.npz`` with an array per feature."""
