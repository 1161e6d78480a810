"""What the loaders of all architectures share: configurations, names and weights."""
