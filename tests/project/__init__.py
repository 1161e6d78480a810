"""The repository itself: imports, indexes, documentation, packages."""
