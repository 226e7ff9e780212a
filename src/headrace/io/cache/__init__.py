"""The cache folder, and what is kept in it: inflated files, copies of remote ones, checksums by block."""
