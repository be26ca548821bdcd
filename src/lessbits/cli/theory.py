"""The command `lessbits theory`."""

from lessbits.cli.checks import check_writable
from lessbits.cli.flags import CHOSEN, CLOCK, ENGINE, FAULTS, LOCAL, Json, with_settings
from lessbits.cli.jax_setup import configure_jax
from lessbits.cli.output import json_path, write_result
from lessbits.config.settings import Settings

EXAMPLES = (
    "lessbits theory --network ring --nodes 100 --quantizer dit-2",
    "lessbits theory --problem logistic --data breast-cancer --nodes 8 --network star --quantizer rand-10",
)


@with_settings(
    without=("method", "option", *CHOSEN, "iterations", "record_every", *ENGINE, *CLOCK, "code", *FAULTS, *LOCAL)
)
def theory(settings: Settings, json_file: Json = None) -> None:
    """Print the step sizes and rates that the theorems give for a problem, a network and a quantizer."""
    check_writable(json_path(json_file))
    configure_jax(settings.precision)
    from lessbits.report.text import theory_report
    from lessbits.studies.theory import describe_theory

    facts = describe_theory(settings)
    write_result(facts, json_file, lambda: theory_report(facts))
