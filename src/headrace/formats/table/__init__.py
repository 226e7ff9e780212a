"""What formats of tables share: Arrow columns, blocks, lines, values."""
