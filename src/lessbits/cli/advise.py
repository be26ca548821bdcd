"""The command `lessbits advise`."""

from lessbits.cli.checks import check_writable
from lessbits.cli.flags import CHOSEN, CLOCK, ENGINE, LOCAL, Json, with_settings
from lessbits.cli.jax_setup import configure_jax
from lessbits.cli.output import json_path, write_result
from lessbits.config.settings import Settings

EXAMPLES = (
    "lessbits advise --network star --nodes 100",
    "lessbits advise --problem least-squares --dim 20 --nodes 16 --drop 0.3",
    "lessbits advise --problem logistic --data breast-cancer --normalize --nodes 8 --network torus:2x4",
)


@with_settings(without=("method", *CHOSEN, *ENGINE, *CLOCK, "record_every", "code", *LOCAL))
def advise(settings: Settings, json_file: Json = None) -> None:
    """Report how far messages can be compressed for free, and which command is expected to send the fewest bits."""
    check_writable(json_path(json_file))
    configure_jax(settings.precision)
    from lessbits.engines.recording.progress import show_activity
    from lessbits.report.advice_text import advice_report
    from lessbits.studies.advice import advise_settings

    with show_activity("trying candidates for the fewest bits"):
        advice = advise_settings(settings)
    write_result(advice, json_file, lambda: advice_report(advice))
