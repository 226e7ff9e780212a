"""Values as HTML, JSON and media."""
