"""Gossip by a Chebyshev polynomial: K exchanges of exact vectors, after which the network looks almost complete.

    v⁰ = x,   v¹ = c₂(v⁰ - c₃Wv⁰),   v^{k+1} = 2c₂(v^k - c₃Wv^k) - v^{k-1},   P_K(W)x = x - v^K/a_K,   a_K = T_K(c₂)

with γ = λ_min⁺/λ_max, c₂ = (1+γ)/(1-γ) and c₃ = 2/((1+γ)λ_max). The eigenvalues of P_K(W), but the zero, lie within
1 ± 1/a_K. Scaman, Bach, Bubeck, Lee and Massoulié (2017), Algorithm 2, use K = ⌊1/√γ⌋.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lessbits.networks.network import Network


class Polynomial(NamedTuple):
    """The polynomial P_K of a network."""

    eigengap: Any  # γ
    lambda_max: Any
    rounds: int  # K

    @classmethod
    def of(cls, network: Network) -> "Polynomial":
        """Return the polynomial with K = ⌊1/√γ⌋. γ is kept below 1, where it would divide by zero."""
        eigengap = min(network.lambda_min / network.lambda_max, 1 - 1e-6)
        return cls(eigengap, network.lambda_max, max(1, math.floor(1 / math.sqrt(eigengap))))

    @property
    def ripple(self) -> float:
        """1/a_K, by which eigenvalues may differ from 1."""
        return 1 / math.cosh(self.rounds * math.acosh((1 + self.eigengap) / (1 - self.eigengap)))

    def next(self, phase: jax.Array, newest: jax.Array, before: jax.Array, disagreement: jax.Array) -> jax.Array:
        """Return v^{k+1}, where k is the phase, from v^k, v^{k-1} and Wv^k."""
        c2, c3 = (1 + self.eigengap) / (1 - self.eigengap), 2 / ((1 + self.eigengap) * self.lambda_max)
        mixed = c2 * (newest - c3 * disagreement)
        return jnp.where(phase == 0, mixed, 2 * mixed - before)

    @property
    def growth(self) -> jax.Array:
        """a_K."""
        return jnp.cosh(self.rounds * jnp.arccosh((1 + self.eigengap) / (1 - self.eigengap)))
