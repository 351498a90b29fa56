"""`elmox explore` and `elmox export --page` without a browser."""

import json
import re
import threading
from pathlib import Path

import httpx
import pytest
from onnx_models import tiny_elmo
from shell import run_elmox

from elmox import Elmo
from elmox.errors import ElmoxError
from elmox.explore.files import PAGE, page_files
from elmox.explore.folder import cached_model
from elmox.explore.web_server import PageServer


def test_only_known_files_are_served(elmo: Elmo, tmp_path: Path) -> None:
    folder, digest = cached_model(elmo, tmp_path)
    with PageServer(folder, digest, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with httpx.Client(base_url=server.url) as client:
            page = client.get("")
            assert page.text.startswith("<!doctype html>")
            described = client.get("page.json").json()
            assert described["digest"] == digest
            for name, size in described["files"].items():
                answer = client.get(name)
                assert len(answer.content) == size
                assert client.head(name).headers["content-length"] == str(size)
            assert client.get("app.js").headers["content-type"].startswith("text/javascript")
            for name in (
                "nothing.js",
                "..%2fwords.py",
                "/etc/passwd",
                "package.json",
                "views",
            ):
                assert client.get(name).status_code == 404
            assert client.get("", headers={"host": "attacker.example:80"}).status_code == 403
        with pytest.raises(ElmoxError, match="cannot be used"):
            PageServer(folder, digest, server.server_address[1])
        server.shutdown()
    assert cached_model(elmo, tmp_path) == (folder, digest)
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == [
        folder.name
    ]


def test_a_page_in_a_folder(model: Path, tmp_path: Path) -> None:
    done = run_elmox("export", model, tmp_path / "page", "--page", "--json")
    assert done.returncode == 0, done.stderr
    files = json.loads(done.stdout)["files"]
    assert set(page_files()) < set(files)
    assert {"page.json", "model/words.onnx", "model/frequent_words.f16"} < set(files)
    assert all((tmp_path / "page" / name).stat().st_size == size for name, size in files.items())
    refused = run_elmox("export", model, tmp_path / "other", "--page", "--state")
    assert refused.returncode == 1
    assert "--state" in refused.stderr


def test_a_model_without_a_softmax(tmp_path: Path) -> None:
    """It is compared with the words of the bundled model, and says that it cannot predict."""
    folder, _ = cached_model(tiny_elmo(), tmp_path)
    words = json.loads((folder / "frequent_words.json").read_text())
    assert len(words["words"]) == 20_000
    assert (folder / "frequent_words.f16").stat().st_size == 2 * 20_000 * words["dim"]
    assert not json.loads((folder / "config.json").read_text())["softmax"]


def test_every_module_is_there() -> None:
    """Every import of a module exists, so that no view is missing on a web host."""
    for name, path in page_files().items():
        if path.suffix == ".js" and "vendor" not in path.parts:
            for imported in re.findall(r'from "(\.[^"]+)"', path.read_text("utf-8")):
                assert (path.parent / imported).resolve().is_file(), f"{name} imports {imported}"


def test_nothing_comes_from_elsewhere() -> None:
    """The page loads only its own files; its policy forbids everything else."""
    for path in PAGE.rglob("*"):
        if path.suffix in {".html", ".js", ".css"} and "vendor" not in path.parts:
            text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
            assert "http:" not in text, path
            assert "https:" not in text, path
    assert "default-src 'none'" in (PAGE / "index.html").read_text("utf-8")
