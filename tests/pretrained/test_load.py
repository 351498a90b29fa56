"""Names and paths of models: what is local, what is on the hub, and what is neither."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_client import load
from hub_server import Hub, serve_hub

from elmox import Elmo, ElmoxError
from elmox.pretrained.hub import is_hub_id

LOCAL = [
    "missing", "./missing", "../missing", "/missing/model", "~/model", "a/b/c",
    "owner/weights.hdf5", "owner/model.tar.gz", "owner/elmo.ZIP", "models/", "/models",
    ".hidden/model", "a//b", "a b/c", "owner\\name", "C:\\models\\elmo",
    "https://x.org/weights", "",
]  # fmt: skip


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Iterator[Hub]:
    """A hub with a model in two revisions, which differ in their mixes; it requires a token."""
    folder = tmp_path_factory.mktemp("served")
    elmo = Elmo.from_pretrained(tiny)
    elmo.save_pretrained(folder / "main")
    elmo.set_mix([0.0, 1.0, 2.0], name="second")
    elmo.save_pretrained(folder / "v2")
    revisions = {name: folder / name for name in ("main", "v2")}
    with serve_hub(Hub({"someone/tiny-elmo": revisions}, token="hf_secret")) as hub:
        yield hub


def test_a_model_of_the_hub_by_revision_and_token(hub: Hub, tmp_path: Path) -> None:
    first = load("someone/tiny-elmo", tmp_path, hub)
    assert first.startswith("elmox model directory")
    assert "second" not in first
    assert "second" in load("someone/tiny-elmo", tmp_path, hub, "v2")
    downloaded = [request for request in hub.requests if request.startswith("GET /someone/")]
    assert not [request for request in downloaded if "README" in request]  # of no use
    # Then they are in the cache, and nothing is needed.
    assert "second" not in load("someone/tiny-elmo", tmp_path, None)
    assert "second" in load("someone/tiny-elmo", tmp_path, None, "v2")


@pytest.mark.parametrize(
    ("name", "revision", "token"),
    [
        ("someone/other-elmo", "", "hf_secret"),
        ("someone/tiny-elmo", "v3", "hf_secret"),
        ("someone/tiny-elmo", "", "hf_wrong"),
    ],
)
def test_a_refusal_of_the_hub_is_one_line(
    name: str, revision: str, token: str, hub: Hub, tmp_path: Path
) -> None:
    shown = load(name, tmp_path, hub, revision, token)
    assert shown.startswith(f"ElmoxError: {name} is not a local path, and the hub download failed")
    assert shown.count("\n") == 1
    assert token not in shown


def test_a_model_nowhere_is_one_line(tmp_path: Path) -> None:
    shown = load("someone/other-elmo", tmp_path, None, token="")
    assert shown.startswith("ElmoxError: someone/other-elmo is not a local path, and the hub")
    assert shown.count("\n") == 1


@pytest.mark.parametrize("name", LOCAL)
def test_names_that_are_never_sent_to_the_hub(name: str) -> None:
    assert not is_hub_id(name)


def test_names_next_to_what_exists_are_never_sent_to_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_hub_id("models/elmo-5.5B")
    (tmp_path / "models").mkdir()
    assert not is_hub_id("models/elmo-5.5B")
    for name in ("models/elmo-5.5B", "./someone/model", "someone/weights.hdf5", "~/model"):
        with pytest.raises(ElmoxError, match=r"does not exist: give a model directory"):
            Elmo.from_pretrained(name)
    with pytest.raises(ElmoxError, match="does not exist"):
        Elmo.from_pretrained(Path("someone/model"))  # a Path is always local


@pytest.mark.parametrize("argument", ["revision", "token"])
def test_arguments_of_hub_ids_for_local_models(argument: str, tiny: Path) -> None:
    for name in (tiny, str(tiny), None, "english-small", "no/such/model"):
        with pytest.raises(ElmoxError, match=f"is not a hub id: leave out {argument}$"):
            Elmo.from_pretrained(name, **{argument: "v2"})  # type: ignore[arg-type]


def test_a_misspelled_option_is_refused(tiny: Path) -> None:
    with pytest.raises(TypeError, match="'dtyp'"):
        Elmo.from_pretrained(tiny, dtyp="int8")  # type: ignore[call-arg]
