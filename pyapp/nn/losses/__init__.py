"""Losses by family: in each file the functions with torch.nn.functional's arguments, and the modules."""
