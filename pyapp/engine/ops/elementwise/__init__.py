"""Ops on each element, by subject."""
