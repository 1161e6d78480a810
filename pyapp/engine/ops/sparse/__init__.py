"""Sparse tensors: of a large tensor of zeros only the other elements are kept, with their indices."""
