"""Layers by family: in each file the functions with torch.nn.functional's arguments, the modules, the lazy modules."""
