"""Reading and writing bytes: paths, mapped files, compression, the cache folder, atomic writes."""
