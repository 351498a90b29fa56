"""`elmox serve`: vectors, scores and task models over HTTP."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from elmox.cli.options import DeviceOption, Precision, PrecisionOption, PrintOptions
from elmox.cli.verb import verb
from elmox.config import BUNDLED
from elmox.serve.limits import Limits

_DEFAULT = Limits()


@dataclass(frozen=True)
class LimitOptions:
    """Limits of the server, named as in `Limits`."""

    max_body_bytes: Annotated[int, typer.Option(help="Bytes per request.", min=1)] = (
        _DEFAULT.max_body_bytes
    )
    max_inputs: Annotated[int, typer.Option(help="Texts per request.", min=1)] = _DEFAULT.max_inputs
    max_tokens_per_text: Annotated[int, typer.Option(help="Tokens per text.", min=1)] = (
        _DEFAULT.max_tokens_per_text
    )
    max_tokens_per_request: Annotated[int, typer.Option(help="Tokens per request.", min=1)] = (
        _DEFAULT.max_tokens_per_request
    )
    max_queue_tokens: Annotated[
        int,
        typer.Option(help="Tokens of all accepted requests; further ones get a 429.", min=1),
    ] = _DEFAULT.max_queue_tokens
    batch_tokens: Annotated[
        int, typer.Option(help="Tokens of waiting requests that are computed together.", min=1)
    ] = _DEFAULT.batch_tokens
    max_connections: Annotated[int, typer.Option(help="Open connections per worker.", min=1)] = (
        _DEFAULT.max_connections
    )
    request_seconds: Annotated[float, typer.Option(help="Time limit per request.", min=0)] = (
        _DEFAULT.request_seconds
    )
    receive_seconds: Annotated[
        float, typer.Option(help="Time limit for a request's headers, then for its body.", min=0)
    ] = _DEFAULT.receive_seconds
    refusal_seconds: Annotated[float, typer.Option(help="Delay before a 429 is sent.", min=0)] = (
        _DEFAULT.refusal_seconds
    )
    linger_seconds: Annotated[
        float, typer.Option(help="Time to go on accepting after SIGTERM.", min=0)
    ] = _DEFAULT.linger_seconds
    drain_seconds: Annotated[
        float, typer.Option(help="Time to finish accepted requests after that.", min=0)
    ] = _DEFAULT.drain_seconds


@verb(
    f"elmox serve {BUNDLED} --check",
    f"elmox serve en={BUNDLED} --tagger ner=runs/names/seed-0/model --workers 2 --check",
)
def command(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL...",
            help=f"Models as PATH or NAME=PATH; {BUNDLED} by default. The first one serves "
            "requests that name none.",
        ),
    ] = None,
    tagger: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=DIR", help="A fitted model, for /v1/tag/NAME. May be repeated."),
    ] = None,
    host: Annotated[str, typer.Option(metavar="HOST", help="Address to bind.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to bind; 0 for a free one.", min=0)] = 8000,
    workers: Annotated[
        int, typer.Option(help="Processes; each of them loads the models.", min=1)
    ] = 1,
    threads: Annotated[int, typer.Option(help="CPU threads per worker.", min=1)] = 1,
    device: DeviceOption = None,
    precision: PrecisionOption = Precision.float32,
    api_key_file: Annotated[
        Path | None, "API keys, one per line, in addition to those in $ELMOX_API_KEYS."
    ] = None,
    allow_public: Annotated[bool, "Serve other machines without an API key."] = False,
    public_metrics: Annotated[bool, "Serve /metrics without an API key."] = False,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN", help="Let pages of this origin call the server. May be repeated."
        ),
    ] = None,
    access_log: Annotated[bool, "Log a JSON line per request."] = True,
    tracing: Annotated[bool, "Create OpenTelemetry spans; see $OTEL_*."] = False,
    check: Annotated[bool, "Load everything, print what is loaded, and exit."] = False,
    *,
    limits: LimitOptions,
    show: PrintOptions,
) -> None:
    """Serve models over HTTP.

    POST /v1/embeddings has the shape of OpenAI's API; GET /docs lists all endpoints. SIGTERM
    finishes the accepted requests and exits. SIGHUP loads models and keys again without downtime.
    """
    from elmox.serve import require_packages

    require_packages()
    from elmox.serve.config import ServeConfig, parse_named_paths
    from elmox.serve.logs import configure_logging
    from elmox.serve.supervisor import serve

    config = ServeConfig(
        models=parse_named_paths(models or [BUNDLED], "model"),
        taggers=parse_named_paths(tagger or [], "tagger"),
        host=host,
        port=port,
        workers=workers,
        threads=threads,
        device=device,
        dtype=precision.value,
        api_key_file=None if api_key_file is None else str(api_key_file),
        allow_public=allow_public,
        public_metrics=public_metrics,
        cors_origins=tuple(cors_origin or ()),
        access_log=access_log and not show.quiet,
        tracing=tracing,
        limits=Limits(**vars(limits)),
    )
    if check:
        from elmox.serve.worker import check_config

        loaded = check_config(config)
        show.result(loaded, _lines(loaded))
        return

    def announce(url: str) -> None:
        show.log(f"serving on {url}")
        if show.as_json:
            typer.echo(json.dumps({"url": url}))

    configure_logging()
    serve(config, announce)


def _lines(loaded: dict[str, Any]) -> list[str]:
    models = [
        f"model {name}: {facts['description']}, {facts['num_layers']} layers of dim {facts['dim']}"
        for name, facts in loaded["models"].items()
    ]
    taggers = [f"tagger {name}: {facts['task']}" for name, facts in loaded["taggers"].items()]
    return [*models, *taggers]
