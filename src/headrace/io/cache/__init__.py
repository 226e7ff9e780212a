"""The cache folder and its contents: inflated files, copies of remote files, checksums by block."""
