"""The training of the embedded models: `story` writes stories, `speech` transcribes speech.

The page's wheel leaves this package out.
"""
