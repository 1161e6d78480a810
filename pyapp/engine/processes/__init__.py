"""Groups of processes by MPI: sums, copies and gathers of tensors. `pyapp.distributed` has the public names."""
