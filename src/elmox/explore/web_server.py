"""The page on 127.0.0.1, by the standard library alone."""

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from elmox.errors import ElmoxError
from elmox.explore.files import HEADERS, PAGE_JSON, browser_page_json, media_type, page_files
from elmox.explore.folder import MODEL

HOST = "127.0.0.1"


class PageServer(ThreadingHTTPServer):
    """A server of the page and one model's export, for this machine only."""

    daemon_threads = True

    def __init__(self, model: Path, digest: str, port: int) -> None:
        """Args:
        model: folder of the model's export.
        digest: name of this version of the model.
        port: port to bind; 0 for a free one.
        """
        self.files = page_files()
        self.files |= {f"{MODEL}{path.name}": path for path in model.iterdir()}
        self.page_json = browser_page_json(MODEL, digest, model)
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise ElmoxError(
                f"port {port} cannot be used ({error.strerror}): choose another one, or 0 for any"
            ) from error

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{HOST}:{self.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    """One file per request, by its name in a fixed table: no path leads out of it."""

    protocol_version = "HTTP/1.1"
    server: PageServer

    def do_GET(self) -> None:
        """Send a file."""
        self._send(with_body=True)

    def do_HEAD(self) -> None:
        """Send a file's headers."""
        self._send(with_body=False)

    def _send(self, with_body: bool) -> None:
        if self.headers.get("host", "").rpartition(":")[0] not in (HOST, "localhost"):
            self.send_error(HTTPStatus.FORBIDDEN)  # another site's name that leads here
            return
        name = unquote(urlsplit(self.path).path).removeprefix("/") or "index.html"
        path = self.server.files.get(name)
        if path is None and name != PAGE_JSON:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        content = self.server.page_json if path is None else path.read_bytes()
        self.send_response(HTTPStatus.OK)
        for header, value in HEADERS.items():
            self.send_header(header, value)
        self.send_header("content-type", media_type(name))
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if with_body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the page is for one person."""
