"""Training of any model: the trainer, checkpoints, interruptible training in a folder, loss curves.

This package does not depend on any model. The training of the embedded models is in pyapp.recipes.
"""
