"""image_folder."""
