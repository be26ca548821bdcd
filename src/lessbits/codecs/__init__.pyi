from .base import Codec as Codec
from .making import CODES as CODES
from .making import make_codec as make_codec
from .making import make_codecs as make_codecs
from .making import register_codec as register_codec
