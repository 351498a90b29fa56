"""The HTTP service: ELMo vectors, scores and task models for other processes and machines.

| file | concept |
|---|---|
| config, limits, keys | what a server is started with |
| supervisor, worker, protocol | processes, signals and connections |
| app, gate, routes/ | requests and their endpoints |
| service, admission, batcher, operations, models | the queue, and the one thread that computes |
| body, schemas, texts, formats, refusals | what goes in and what comes out |
| record, metrics, logs, tracing | what can be observed from outside |
"""

from importlib.util import find_spec

from elmox.errors import ElmoxError, install_hint

PACKAGES = ("fastapi", "uvicorn", "httptools", "orjson", "prometheus_client")


def require_packages() -> None:
    """Raise an `ElmoxError` if a package of the extra `serve` is missing."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ElmoxError(f"serving needs {', '.join(missing)}: {install_hint('serve')}")
