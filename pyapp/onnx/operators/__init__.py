"""The operators of ONNX, one function each, by subject. `registry.find` gives the function for a node."""
