"""A hub on this machine: enough of the Hugging Face hub's protocol to download a model."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit


@dataclass
class Hub:
    """Served repositories and received requests.

    Attributes:
        repositories: by id, folders of files by revision.
        token: required in every request for a repository, if any.
        requests: `METHOD path` of every request.
    """

    repositories: dict[str, dict[str, Path]]
    token: str | None = None
    requests: list[str] = field(default_factory=list)
    url: str = ""


@contextmanager
def serve_hub(hub: Hub) -> Iterator[Hub]:
    """Serve until the block ends; the URL is in `hub.url`."""

    class Handler(_Handler):
        served = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    served: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._respond()

    def do_GET(self) -> None:
        self._respond()

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def _respond(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.served.requests.append(f"{self.command} {path}")
        match path.strip("/").split("/"):
            case ["api", "models", owner, name, "revision", revision]:
                self._list(f"{owner}/{name}", revision)
            case ["api", "models", owner, name, "tree", revision, *_]:
                self._tree(f"{owner}/{name}", revision)
            case [owner, name, "resolve", revision, *file]:
                self._file(f"{owner}/{name}", revision, "/".join(file))
            case _:
                self._send(404, b"")

    def _folder(self, repository: str, revision: str) -> Path | None:
        """Return what a revision or its commit names; answer with an error if that is nothing."""
        hub = self.served
        is_allowed = hub.token in (None, self.headers.get("Authorization", "").split(" ")[-1])
        revisions = hub.repositories.get(repository)
        if revisions is None or not is_allowed:
            self._send(404 if is_allowed else 401, b"", {"X-Error-Code": "RepoNotFound"})
            return None
        for known, folder in revisions.items():
            if revision in (known, _commit(repository, known)):
                return folder
        self._send(404, b"", {"X-Error-Code": "RevisionNotFound"})
        return None

    def _list(self, repository: str, revision: str) -> None:
        folder = self._folder(repository, revision)
        if folder is not None:
            files = [{"rfilename": path.name} for path in sorted(folder.iterdir())]
            commit = _commit(repository, revision)
            facts = {"id": repository, "modelId": repository, "sha": commit, "siblings": files}
            self._send(200, json.dumps(facts).encode(), {"Content-Type": "application/json"})

    def _tree(self, repository: str, revision: str) -> None:
        folder = self._folder(repository, revision)
        if folder is not None:
            entries = [
                {
                    "type": "file",
                    "path": path.name,
                    "size": path.stat().st_size,
                    "oid": hashlib.sha1(path.read_bytes()).hexdigest(),
                }
                for path in sorted(folder.iterdir())
            ]
            self._send(200, json.dumps(entries).encode(), {"Content-Type": "application/json"})

    def _file(self, repository: str, revision: str, name: str) -> None:
        folder = self._folder(repository, revision)
        if folder is None:
            return
        if not (folder / name).is_file():
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        content = (folder / name).read_bytes()
        known = next(r for r, f in self.served.repositories[repository].items() if f == folder)
        etag = f'"{hashlib.sha1(content).hexdigest()}"'
        self._send(200, content, {"ETag": etag, "X-Repo-Commit": _commit(repository, known)})

    def _send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)


def _commit(repository: str, revision: str) -> str:
    """Return the 40 digits of a revision; a commit is its own."""
    is_commit = len(revision) == 40
    return revision if is_commit else hashlib.sha1(f"{repository} {revision}".encode()).hexdigest()
