"""The layout of a page: ink, its angle, rules, tables, lines of text, and the order in which they are read.

The method is small and has no weights; docs/reader.md says it step by step. Coordinates are pixels; a box is (left,
top, right, bottom), the last two after its last pixels.
"""
