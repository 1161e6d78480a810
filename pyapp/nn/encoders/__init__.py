"""Models that read whole texts at once."""
