"""Texts of a given form: JSON schemas, patterns and choices as automata over bytes."""
