"""Devices, one file each, found by name."""
