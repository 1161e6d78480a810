"""Language models that write one token after another: their layers, attention and caches."""
