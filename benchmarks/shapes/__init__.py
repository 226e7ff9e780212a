"""Headrace beside its fastest peers over datasets of many shapes."""
