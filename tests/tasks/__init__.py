"""pyapp.tasks: what models do for their users."""
