"""`elmox serve`: vectors, scores and task models over HTTP."""

from pathlib import Path
from typing import Annotated

import typer

from elmox.cli.embed import Precision
from elmox.cli.model_options import Device
from elmox.config import BUNDLED

MiB = 2**20


def command(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help=f"Models as NAME=PATH or PATH; {BUNDLED} by default. The first one serves "
            "requests that name no model.",
            show_default=False,
        ),
    ] = None,
    tagger: Annotated[
        list[str] | None,
        typer.Option(help="A model that elmox fit has made, as NAME=PATH.", show_default=False),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to bind.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to bind; 0 for a free one.", min=0)] = 8000,
    workers: Annotated[int, typer.Option(help="Processes; each loads the models.", min=1)] = 1,
    threads: Annotated[int, typer.Option(help="Threads per worker.", min=1)] = 1,
    device: Device = None,
    precision: Annotated[Precision, typer.Option(help="Of the computation.")] = Precision.float32,
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            help="File with one API key per line, in addition to the variable ELMOX_API_KEYS.",
            show_default=False,
        ),
    ] = None,
    allow_public: Annotated[
        bool, typer.Option("--allow-public", help="Serve other machines without an API key.")
    ] = False,
    public_metrics: Annotated[
        bool, typer.Option("--public-metrics", help="Serve /metrics without an API key.")
    ] = False,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(help="Origin whose pages may call the server.", show_default=False),
    ] = None,
    max_body_bytes: Annotated[int, typer.Option(help="Bytes per request.", min=1)] = 2 * MiB,
    max_inputs: Annotated[int, typer.Option(help="Texts per request.", min=1)] = 1024,
    max_tokens_per_text: Annotated[int, typer.Option(help="Tokens per text.", min=1)] = 4096,
    max_tokens_per_request: Annotated[int, typer.Option(help="Tokens per request.", min=1)] = 16384,
    max_queue_tokens: Annotated[
        int, typer.Option(help="Tokens of all accepted requests; more are refused.", min=1)
    ] = 32768,
    batch_tokens: Annotated[int, typer.Option(help="Tokens computed at a time.", min=1)] = 4096,
    request_seconds: Annotated[float, typer.Option(help="Time limit per request.", min=0)] = 30.0,
    receive_seconds: Annotated[
        float, typer.Option(help="Time for a request's headers, and then its body.", min=0)
    ] = 10.0,
    drain_seconds: Annotated[
        float, typer.Option(help="Time to finish accepted requests when stopping.", min=0)
    ] = 30.0,
    linger_seconds: Annotated[
        float, typer.Option(help="Time to go on accepting when stopping.", min=0)
    ] = 0.5,
    access_log: Annotated[bool, typer.Option(help="Write a JSON line per request.")] = True,
    tracing: Annotated[
        bool, typer.Option("--tracing", help="Create OpenTelemetry spans (OTEL_* variables).")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Load everything, print it as JSON, and exit.")
    ] = False,
) -> None:
    """Serve models over HTTP: /v1/embeddings (OpenAI's shape), /v1/tokens, /v1/score and more.

    SIGTERM finishes accepted requests and exits; SIGHUP loads the models again without downtime.
    GET /docs lists the endpoints.
    """
    from elmox.serve import require_packages

    require_packages()
    from elmox.serve.config import ServeConfig, parse_named_paths
    from elmox.serve.limits import Limits

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
        access_log=access_log,
        tracing=tracing,
        limits=Limits(
            max_body_bytes=max_body_bytes,
            max_inputs=max_inputs,
            max_tokens_per_text=max_tokens_per_text,
            max_tokens_per_request=max_tokens_per_request,
            max_queue_tokens=max_queue_tokens,
            batch_tokens=batch_tokens,
            request_seconds=request_seconds,
            receive_seconds=receive_seconds,
            drain_seconds=drain_seconds,
            linger_seconds=linger_seconds,
        ),
    )
    if check:
        from elmox.serve.worker import check_config

        typer.echo(check_config(config))
        return
    from elmox.serve.logs import configure_logging
    from elmox.serve.supervisor import serve

    configure_logging()
    serve(config, announce=lambda url: typer.echo(f"elmox: serving on {url}", err=True))
