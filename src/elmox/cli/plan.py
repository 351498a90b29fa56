"""`elmox plan`: what a long run costs, before it is started."""

from typing import Any

from elmox.cli.help import VerbGroup
from elmox.cli.plan_embed import command as embed
from elmox.cli.plan_train import command as train
from elmox.cli.verb import verb_group


class _Plans(VerbGroup):
    """`elmox plan RECIPE` is `elmox plan train RECIPE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Add the verb if there is none."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["train", *args]
        return super().parse_args(ctx, args)


app = verb_group(
    "Estimate what a long run takes: training (the default: elmox plan RECIPE) or embedding.",
    {"train": train, "embed": embed},
    cls=_Plans,
)
