"""The grammar: templates and words from which stories are made."""
