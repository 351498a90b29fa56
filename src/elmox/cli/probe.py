"""`elmox probe`: what each layer of a model knows."""

import typer

from elmox.cli import probe_pos, probe_wsd

app = typer.Typer(
    help="Measure what each layer knows, by simple means on labeled text.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("pos")(probe_pos.command)
app.command("wsd")(probe_wsd.command)
