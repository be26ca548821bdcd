"""What training with neighbours needs, whatever library the model is written in: rule, links, order of turns, frames.

Nothing here imports PyTorch or JAX: `lessbits.torch` and `lessbits.neural` both build on it.
"""
