"""What :class:`headrace.Source` can do: each operation builds a node, or reads what its index needs and then builds one."""
