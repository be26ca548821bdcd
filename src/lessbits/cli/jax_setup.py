"""Prepares JAX for a command."""

from lessbits._internal.programs import keep_compiled


def configure_jax(precision: int) -> None:
    """Set the precision of all arrays, and keep compiled programs on disk; call it before anything is computed."""
    import jax

    jax.config.update("jax_enable_x64", precision == 64)
    keep_compiled()
