"""How the embedded models are made: `story` writes stories, `speech` transcribes speech.

The page's wheel leaves this package out.
"""
