"""`python -m lessbits` is the command `lessbits`."""

from lessbits.cli import main

main()
