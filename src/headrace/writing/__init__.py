"""From examples to files, from files to other files, and a check of what is in them."""
