"""What the formats of tables share: types, columns, blocks that are kept, and the schema that travels in a file."""
