"""Models that see pictures and videos."""
