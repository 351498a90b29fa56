"""A hub on this machine: enough of the Hugging Face hub's protocol to move a model.

Uploads go as they go to the hub: small files in the commit, large ones (`.safetensors`) by git-lfs
first, whose digests the commit then names.
"""

import base64
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
        uploads: folder of new revisions; None to refuse uploads.
        objects: what was uploaded by git-lfs, by its digest.
    """

    repositories: dict[str, dict[str, Path]]
    token: str | None = None
    requests: list[str] = field(default_factory=list)
    uploads: Path | None = None
    objects: dict[str, bytes] = field(default_factory=dict)
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

    def do_POST(self) -> None:
        path, body = self._request()
        match path.strip("/").split("/"):
            case ["api", "repos", "create"]:
                values = json.loads(body)
                name = f"{values['organization']}/{values['name']}"
                if self._may_write():
                    self.served.repositories.setdefault(name, {})
                    self._revision(name, "main")
                    self._json({"url": f"{self.served.url}/{name}"})
            case ["api", "models", owner, name, "branch", branch]:
                if self._may_write():
                    self._revision(f"{owner}/{name}", branch)
                    self._json({})
            case ["api", "models", owner, name, "preupload", _]:
                files = [file["path"] for file in json.loads(body)["files"]]
                modes = {True: "lfs", False: "regular"}
                self._json({
                    "files": [
                        {"path": file, "uploadMode": modes[file.endswith(".safetensors")],
                         "shouldIgnore": False}
                        for file in files
                    ]
                })  # fmt: skip
            case [_, _, "info", "lfs", "objects", "batch"]:
                objects = json.loads(body)["objects"]
                for item in objects:
                    href = f"{self.served.url}/objects/{item['oid']}"
                    item["actions"] = {"upload": {"href": href}}
                self._json({"transfer": "basic", "objects": objects})
            case ["api", "models", owner, name, "commit", branch]:
                self._commit(f"{owner}/{name}", branch, body)
            case ["api", "validate-yaml"]:
                self._json({"errors": [], "warnings": []})
            case _:
                self._send(404, b"")

    def do_PUT(self) -> None:
        path, body = self._request()
        digest = path.rsplit("/", 1)[-1]
        assert hashlib.sha256(body).hexdigest() == digest
        self.served.objects[digest] = body
        self._send(200, b"")

    def _request(self) -> tuple[str, bytes]:
        """Return the path and the content of a request."""
        path = unquote(urlsplit(self.path).path)
        self.served.requests.append(f"{self.command} {path}")
        if self.headers.get("Transfer-Encoding") == "chunked":
            chunks = []
            while size := int(self.rfile.readline(), 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return path, b"".join(chunks)
        return path, self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _may_write(self) -> bool:
        sent = self.headers.get("Authorization", "").split(" ")[-1]
        if self.served.uploads is not None and self.served.token in (None, sent):
            return True
        self._send(401, b"", {"X-Error-Message": "Invalid username or password."})
        return False

    def _revision(self, repository: str, branch: str) -> Path:
        """Return the folder of a branch, which is made if there is none."""
        assert self.served.uploads is not None
        revisions = self.served.repositories[repository]
        if branch not in revisions:
            revisions[branch] = self.served.uploads / repository / branch
            revisions[branch].mkdir(parents=True)
        return revisions[branch]

    def _commit(self, repository: str, branch: str, body: bytes) -> None:
        if not self._may_write():
            return
        folder = self._revision(repository, branch)
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            match line["key"]:
                case "file":
                    (folder / value["path"]).write_bytes(base64.b64decode(value["content"]))
                case "lfsFile":
                    (folder / value["path"]).write_bytes(self.served.objects[value["oid"]])
        commit = _commit(repository, branch)
        url = f"{self.served.url}/{repository}/commit/{commit}"
        self._json({"success": True, "commitOid": commit, "commitUrl": url})

    def _json(self, values: object) -> None:
        self._send(200, json.dumps(values).encode(), {"Content-Type": "application/json"})

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
        if self.command != "HEAD":
            self.wfile.write(content)


def _commit(repository: str, revision: str) -> str:
    """Return the 40 digits of a revision; a commit is its own."""
    is_commit = len(revision) == 40
    return revision if is_commit else hashlib.sha1(f"{repository} {revision}".encode()).hexdigest()
