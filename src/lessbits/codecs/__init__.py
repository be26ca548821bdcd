"""Codecs: lossless conversion of payloads to bytes and back, on the host.

Names are looked up when first used. What makes codecs of quantizers loads JAX with them; the coders themselves, and the
codec of blocks that training processes use, are NumPy alone.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
