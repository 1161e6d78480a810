"""Training for any model: the trainer, checkpoints, the folder of a training that can be interrupted, loss curves.

Nothing here knows a model. How the embedded models are made stands in pyapp.recipes.
"""
