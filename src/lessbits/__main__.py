"""`python -m lessbits` is the command `lessbits`."""

from lessbits.cli.app import main

if __name__ == "__main__":
    main()
