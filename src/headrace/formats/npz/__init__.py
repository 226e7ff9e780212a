"""``.npz``: named arrays in a ZIP file. The directory, the table of aligned arrays, the writer, the checks."""
