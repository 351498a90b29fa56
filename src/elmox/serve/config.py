"""The configuration of a server: models, address, processes and limits."""

import ipaddress
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from elmox.config import BUNDLED
from elmox.errors import Argument, ArgumentError, ElmoxError, require_at_least
from elmox.serve.keys import read_keys
from elmox.serve.limits import Limits


class PublicAddressWithoutKey(ArgumentError):
    """A server would be reachable from other machines without an API key.

    Attributes:
        host: the address.
    """

    def __init__(self, host: str) -> None:
        """Recommend a key."""
        self.host = host
        super().__init__(
            "{} is reachable from other machines without an API key: give one with {} or the "
            "variable ELMOX_API_KEYS, or allow that with {}",
            Argument("host", host),
            Argument("api_key_file"),
            Argument("allow_public", True),
        )


@dataclass(frozen=True)
class ServeConfig:
    """Everything that a server is started with.

    Attributes:
        models: paths of the models by the names that requests use; the first is the default.
        taggers: directories of fitted task models by name.
        host: address to bind.
        port: port to bind; 0 for any free one.
        workers: processes; each loads the models.
        threads: threads per worker that compute.
        device: cpu, cuda, ...; None for a GPU if there is one.
        dtype: precision of the computation, as `Elmo.from_pretrained` takes it.
        api_key_file: file with one API key per line, in addition to `ELMOX_API_KEYS`.
        allow_public: allow an address that other machines reach without an API key.
        public_metrics: serve /metrics without an API key.
        cors_origins: origins whose pages may call the server; none by default.
        access_log: write a line per request.
        tracing: create an OpenTelemetry span per request.
        limits: the limits.
    """

    models: dict[str, str] = field(default_factory=lambda: {BUNDLED: BUNDLED})
    taggers: dict[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    threads: int = 1
    device: str | None = None
    dtype: str = "float32"
    api_key_file: str | None = None
    allow_public: bool = False
    public_metrics: bool = False
    cors_origins: tuple[str, ...] = ()
    access_log: bool = True
    tracing: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not self.models:
            raise ElmoxError("models={}: name at least one model")
        for name in ("workers", "threads"):
            require_at_least(1, name, getattr(self, name))

    def check_address(self) -> None:
        """Refuse to serve other machines without a key, unless that is allowed.

        Raises:
            PublicAddressWithoutKey: if the address is not a loopback one and there is no key.
        """
        if not (self.allow_public or _is_loopback(self.host) or read_keys(self.api_key_file)):
            raise PublicAddressWithoutKey(self.host)

    def to_json(self) -> str:
        """Return the configuration as one line, for a worker."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> "ServeConfig":
        """Read what `to_json` has written."""
        values = json.loads(line)
        values["limits"] = Limits(**values["limits"])
        values["cors_origins"] = tuple(values["cors_origins"])
        return cls(**values)


def parse_named_paths(values: list[str], what: str) -> dict[str, str]:
    """Read `NAME=PATH` or `PATH`, whose name is then that of the file or directory.

    Args:
        values: as given on a command line.
        what: what they are, for errors.
    """
    paths: dict[str, str] = {}
    for value in values:
        name, equals, path = value.partition("=")
        if not equals:
            name, path = Path(value).name, value
        if not name or not path:
            raise ElmoxError(f"{what} {value!r}: expected NAME=PATH or PATH")
        if name in paths:
            raise ElmoxError(f"two {what}s are named {name!r}: name them apart as NAME=PATH")
        paths[name] = path
    return paths


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which may resolve to anything
        return False
