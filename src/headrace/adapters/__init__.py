"""Doors to other libraries: Arrow, pandas, Hugging Face datasets, Grain."""
