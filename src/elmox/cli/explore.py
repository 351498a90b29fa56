"""`elmox explore`: a page that shows what a model's layers know."""

from typing import Annotated

import typer

from elmox.cli.options import LanguageModelOptions, PrintOptions
from elmox.cli.verb import verb
from elmox.config import BUNDLED


@verb(
    f"elmox explore {BUNDLED} --check",
    f"elmox explore {BUNDLED} --port 0 --no-browser --check",
)
def command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Path or Hub id of a model.")
    ] = BUNDLED,
    port: Annotated[int, typer.Option(help="Port to bind; 0 for a free one.", min=0)] = 8100,
    browser: Annotated[bool, "Open the page in a browser."] = True,
    check: Annotated[bool, "Prepare the page, print its address, and exit."] = False,
    *,
    files: LanguageModelOptions,
    show: PrintOptions,
) -> None:
    """Open a page that explores a model: words in context, layers, predictions, spellings.

    The model is exported once, into the cache, and runs in the browser. Only this machine can reach
    the page. Ctrl-C ends it. To put the page on a web host, see `elmox export --page`.
    """
    from elmox.elmo import Elmo
    from elmox.explore.folder import cached_model
    from elmox.explore.web_server import PageServer

    show.log("preparing the page; the first time, the model is exported")
    folder, digest = cached_model(Elmo(files.load_checkpoint(model), model))
    with PageServer(folder, digest, port) as server:
        show.result({"url": server.url, "model": str(folder)}, [server.url])
        if check:
            return
        if browser:
            import webbrowser

            webbrowser.open(server.url)
        show.log("press Ctrl-C to end")
        server.serve_forever()
