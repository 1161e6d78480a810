"""From texts to tokens and back, by the files of every family of tokenizers."""
