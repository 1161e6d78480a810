"""Functions of torch._C that packages use."""
