"""The numbers that the paper proves (`theorems`), and those that the mean-square analysis predicts (`mean_square`).

`schedules` finds step sizes that change with the iteration, with the model of `schedule_modes`. `edges` and
`edge_modes` are the numbers for duals that edges own, whose links may be silent or late. `intervals` models training
with local steps between exchanges. `bounds` has the fewest bits that any method can need.
"""

from lessbits.theory.bounds import consensus_bits_per_link, cut_bits, tree_bits_per_link, tree_round_bits_per_link
from lessbits.theory.edge_modes import edge_rate, edge_step_sizes
from lessbits.theory.edges import EdgeProof, EdgeSizes, proven_edge_sizes
from lessbits.theory.mean_square import Prediction, mean_square_rate, practical_step_sizes
from lessbits.theory.theorems import (
    LyapunovWeights,
    StepSizes,
    TheoryInputs,
    corrected_step_sizes,
    free_omega,
    iterations,
    lyapunov_coefficients,
    noise_floor,
    noise_inflation,
    rate,
    step_sizes,
    stochastic_eta,
)

__all__ = [
    "EdgeProof",
    "EdgeSizes",
    "LyapunovWeights",
    "Prediction",
    "StepSizes",
    "TheoryInputs",
    "consensus_bits_per_link",
    "corrected_step_sizes",
    "cut_bits",
    "edge_rate",
    "edge_step_sizes",
    "free_omega",
    "iterations",
    "lyapunov_coefficients",
    "mean_square_rate",
    "noise_floor",
    "noise_inflation",
    "practical_step_sizes",
    "proven_edge_sizes",
    "rate",
    "step_sizes",
    "stochastic_eta",
    "tree_bits_per_link",
    "tree_round_bits_per_link",
]
