"""The grammar: rules and words from which sentences are made."""
