"""Models that hear, speak and code sound."""
