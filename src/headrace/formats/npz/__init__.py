"""``.npz``: named arrays in a ZIP file. Its directory, the table of aligned arrays, the writer, the checks."""
