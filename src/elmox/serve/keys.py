"""API keys: read from a file and the environment, compared in constant time."""

import hmac
import os
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from elmox.errors import ElmoxError

VARIABLE = "ELMOX_API_KEYS"
MIN_CHARACTERS = 16


def read_keys(path: str | None) -> list[str]:
    """Return the keys of a file and of `ELMOX_API_KEYS`.

    Args:
        path: file with one key per line; blank lines and lines that begin with # are skipped.

    Raises:
        ElmoxError: for a file without keys, and for keys that are too short or not ASCII.
    """
    keys = os.environ.get(VARIABLE, "").replace(",", " ").split()
    if path is not None:
        lines = [line.strip() for line in Path(path).read_text("utf-8").splitlines()]
        in_file = [line for line in lines if line and not line.startswith("#")]
        if not in_file:
            raise ElmoxError(f"{path} holds no API key: write one per line")
        keys += in_file
    for number, key in enumerate(keys, start=1):  # the key itself belongs into no message
        if len(key) < MIN_CHARACTERS or not key.isascii() or not key.isprintable():
            raise ElmoxError(
                f"API key {number} is not usable: expected at least {MIN_CHARACTERS} ASCII "
                "characters, for example from `openssl rand -hex 24`"
            )
    return keys


class KeyRing:
    """The keys that a server accepts; none at all accept every request."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [sha256(key.encode()).digest() for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def accepts(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        """Return whether a request's headers hold one of the keys.

        Every key is compared, whatever the others gave: the time reveals nothing about any of them.
        """
        if not self._digests:
            return True
        digest = sha256(_key_of(headers)).digest()
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        return any(matches)


def _key_of(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return the key in `Authorization: Bearer KEY` or `X-API-Key: KEY`."""
    for name, value in headers:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return value[7:].strip()
        if name == b"x-api-key":
            return value.strip()
    return b""
