"""The pages of the viewer."""
