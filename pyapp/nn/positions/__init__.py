"""How attention knows where tokens are."""
