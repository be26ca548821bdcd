"""What the library says: on its logger, which the command line shows; warnings are seen without any set-up."""

import logging
import subprocess
import sys

import pytest

from lessbits._internal.logging import StandardError, logger, show_messages


@pytest.fixture
def shown():
    """Show messages as the command line does, and leave the logger as it was."""
    handlers, level = list(logger.handlers), logger.level
    show_messages()
    yield
    logger.handlers, logger.level = handlers, level


def test_the_command_line_shows_each_message_once_with_a_name_before_it(shown, capsys):
    show_messages()  # a second call changes nothing
    assert sum(isinstance(handler, StandardError) for handler in logger.handlers) == 1
    logger.warning("100 % of the disk is full")
    logger.info("20 nodes", extra={"speaker": "table3"})
    logger.debug("nothing of this")
    logging.getLogger("another").warning("nor of this")
    assert capsys.readouterr() == ("", "lessbits: 100 % of the disk is full\ntable3: 20 nodes\n")


def test_a_program_without_logging_sees_warnings_alone():
    code = "from lessbits._internal.logging import logger; logger.info('news'); logger.warning('the disk is full')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "the disk is full\n")
