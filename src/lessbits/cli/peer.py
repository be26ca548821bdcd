"""The command `lessbits peer`: runs across sites that talk to each other directly."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lessbits.cli import peer_init, peer_up
from lessbits.cli.checks import check_not_read, check_writable
from lessbits.cli.flags import Json, Quiet, number_parser, output_flag
from lessbits.cli.help import examples
from lessbits.cli.jax_setup import configure_jax
from lessbits.cli.output import json_path, print_line, print_message, write_result
from lessbits.errors import InputError

app = typer.Typer()

SiteArgument = Annotated[Path, typer.Argument(help="The site's file, which peer init made.", metavar="SITE.toml")]
EXAMPLES = (
    "lessbits peer run berlin/site.toml --data mine.libsvm",
    "lessbits peer run rome/site.toml --data mine.csv --live",
)


def _own(text: str, kind: type) -> Any:
    return typer.Option(help=text, rich_help_panel="This site", show_default=False, parser=number_parser(kind))


@app.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    """Run across sites: every site runs one process, knows only its neighbours, and keeps its data."""
    if context.invoked_subcommand is None:
        print(context.get_help())


app.command(epilog=examples(*peer_init.INIT_EXAMPLES))(peer_init.init)
app.command(epilog=examples(*peer_init.FINGERPRINT_EXAMPLES))(peer_init.fingerprint)


@app.command(epilog=examples(*EXAMPLES))
def run(
    site: SiteArgument,
    data: Annotated[
        str | None,
        typer.Option(help="File with the rows of this site. They stay here.", show_default=False, metavar="FILE"),
    ] = None,
    patience: Annotated[
        float | None, _own("Seconds that a silent neighbour is waited for at least; default: 10.", float)
    ] = None,
    begin_after: Annotated[
        float | None,
        _own("Seconds after which the run begins without missing neighbours; default: 60.", float),
    ] = None,
    give_up_after: Annotated[
        float | None, _own("Seconds after which a site without any neighbour left ends; default: 300.", float)
    ] = None,
    checkpoint_every: Annotated[float | None, _own("Seconds between two checkpoints; default: 30.", float)] = None,
    live: peer_up.Live = False,
    live_port: peer_up.LivePort = None,
    log: Annotated[Path | None, output_flag("Append one line of JSON per second and event to this file.")] = None,
    solution: Annotated[Path | None, output_flag("Write the final x of this site to this .npy file.")] = None,
    schedule: Annotated[
        Path | None, output_flag("Write down which messages were applied when, to repeat the run in the simulator.")
    ] = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Join a run as one of its sites, and stay until it ends.

    The roster names the sites and their links, and what they compute. Neighbours that fail are set aside, and the run
    goes on; they return by themselves. A site that was interrupted goes on from its checkpoint with the same command.
    """
    check_writable(solution, schedule, json_path(json_file), appended=log)
    check_not_read([solution, schedule, log, json_path(json_file)], [site, data])
    from lessbits.config.peer_run import PeerRequest, run_peer, set_up

    request = PeerRequest(
        site_file=site,
        data=data,
        own={
            "patience": patience,
            "begin_after": begin_after,
            "give_up_after": give_up_after,
            "checkpoint_every": checkpoint_every,
        },
        live=peer_up.page_port(live, live_port),
        log=log,
        schedule=schedule,
        say=(lambda text: None) if quiet else print_message,
    )
    setup = set_up(request)
    configure_jax(setup.settings.settings.precision)
    result = run_peer(setup, request)
    if solution is not None:
        import numpy as np

        with solution.open("wb") as stream:
            np.save(stream, result.x)
    facts = {name: value for name, value in vars(result).items() if name != "x"}

    def print_text() -> None:
        from lessbits._internal.wording import human

        ending = "interrupted" if result.interrupted else "reached the target" if result.converged else "ended"
        print_line(f"{setup.file.name}: {ending} after {result.iterations} iterations, {result.seconds:.1f} s")
        print_line(f"error estimate  {result.estimate:.3g}")
        if result.without:
            print_line(f"without         {', '.join(result.without)}")
        print_line(f"sent            {human(8 * result.sent_bytes)} to all neighbours")

    write_result({"site": setup.file.name, **facts}, json_file, print_text)
    if result.interrupted:
        print_message("run the same command again to go on")
        raise KeyboardInterrupt


@app.command(epilog=examples("lessbits peer status berlin/site.toml"))
def status(site: SiteArgument, json_file: Json = None) -> None:
    """Ask the process of a site on this machine how it stands: neighbours, rounds, error estimate, bits."""
    from lessbits.engines.peers.site_file import read_site
    from lessbits.engines.peers.status import ask_status
    from lessbits.report.peer_text import status_text

    file = read_site(site)
    try:
        answer = ask_status(file.state / "status.sock")
    except InputError as error:
        raise InputError(f"{file.name}: {error}") from None

    def print_text() -> None:
        for line in status_text(answer):
            print_line(line)

    write_result(answer, json_file, print_text)


app.command(epilog=examples(*peer_up.EXAMPLES))(peer_up.up)
