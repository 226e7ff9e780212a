"""The viewer: a local web page that shows any dataset. ``headrace view PATH``, or :func:`headrace.view` in a notebook."""
