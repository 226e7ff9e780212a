"""Conversions whose units are written by other processes: on machines that share a folder, or for a store."""
