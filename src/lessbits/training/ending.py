"""What the process of a training script says when it ends by an error."""

from lessbits.errors import mistake_line, printable


def last_words(error: BaseException) -> tuple[str, int]:
    """Return the line that a process ends with, and its exit status.

    >>> last_words(SystemExit("no data")), last_words(SystemExit(3)), last_words(KeyError("a"))
    (('no data', 1), ('ended with exit status 3', 3), ("KeyError: 'a'", 1))
    """
    if isinstance(error, SystemExit):  # as Python does: a number is the status, and all else is printed
        if isinstance(error.code, int):
            return f"ended with exit status {error.code & 0xFF}", error.code & 0xFF
        return _one_line(error.code), 1
    if (mistake := mistake_line(error)) is not None:
        return mistake, 2
    text = _one_line(error)
    return f"{type(error).__name__}{': ' * bool(text)}{text}", 1


def _one_line(given: object) -> str:
    return printable(" ".join(str(given).split()))
