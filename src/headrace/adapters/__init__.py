"""Exchange with other libraries: Arrow, pandas, Hugging Face datasets, Grain, Ray Data."""
