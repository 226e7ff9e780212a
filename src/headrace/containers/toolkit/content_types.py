"""Names of content types."""

__all__ = ["ANY", "CSV", "JSON", "NPY", "NPZ", "OCTET_STREAM", "UTF8_TYPES"]

JSON = "application/json"
CSV = "text/csv"
OCTET_STREAM = "application/octet-stream"
ANY = "*/*"
NPY = "application/x-npy"
NPZ = "application/x-npz"
UTF8_TYPES = [JSON, CSV]
