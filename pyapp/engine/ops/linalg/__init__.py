"""Linear algebra, by subject."""
