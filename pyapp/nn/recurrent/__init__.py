"""Language models whose layers carry a state from token to token."""
