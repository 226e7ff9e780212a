"""webdataset."""
