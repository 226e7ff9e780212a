"""Examples by index: records and a codec, arrays, and views over them."""
