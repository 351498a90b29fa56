"""JSON logs on stderr: a line per request, without users' text."""

import logging
import sys
import time
import traceback
from typing import Any

import orjson

NAME = "elmox.serve"


def configure_logging() -> None:
    """Write what the server logs as JSON lines to stderr; other loggers stay as they are."""
    handler = _StderrHandler()
    handler.setFormatter(JsonFormatter())
    for name, level in ((NAME, logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


class _StderrHandler(logging.Handler):
    """Writes to whatever stderr is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        sys.stderr.write(f"{self.format(record)}\n")
        sys.stderr.flush()


class JsonFormatter(logging.Formatter):
    """Records as JSON: time, level, message and the fields of `extra={"fields": {...}}`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, frames = record.exc_info
            # Without the message: it may quote what a user has sent.
            line["exception"] = kind.__name__
            line["traceback"] = "".join(traceback.format_tb(frames))
        return orjson.dumps(line, default=str).decode()


def log(event: str, level: int = logging.INFO, **fields: Any) -> None:
    """Write a line."""
    logging.getLogger(NAME).log(level, event, extra={"fields": fields})
