"""Phonemes of English texts."""
