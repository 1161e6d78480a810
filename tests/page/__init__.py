"""The Python side of the page, without a browser."""
