"""Models of the Hugging Face hub."""

import re
from pathlib import Path
from typing import TypeAlias

from elmox.errors import ElmoxError

Token: TypeAlias = str | bool | None

# A name with one of these means a local file, also if there is none.
FILE_SUFFIXES = (
    ".hdf5", ".h5", ".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".th", ".pkl", ".safetensors",
    ".json", ".txt", ".index",
)  # fmt: skip

_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+", re.ASCII)
_FILES = ("*.json", "*.safetensors", "*.hdf5", "*.pkl", "*.dic", "vocab.txt")


def is_hub_id(name: str) -> bool:
    """Return whether a name that does not exist locally is a hub id, `owner/name`.

    It is a local path with a mistake in it if it ends like a file that elmox reads, or if its first
    part exists: such a name is never sent to the hub.
    """
    is_id = _HUB_ID.fullmatch(name) is not None
    return is_id and not name.lower().endswith(FILE_SUFFIXES) and not Path(name).parent.exists()


def download(hub_id: str, revision: str | None = None, token: Token = None) -> Path:
    """Return the local directory of a model, which is downloaded unless it is in the cache.

    Args:
        hub_id: `owner/name`.
        revision: branch, tag or commit; None for the default branch.
        token: access token; True for the stored one, None for the stored one if there is one.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        folder = snapshot_download(
            hub_id, revision=revision, token=token, allow_patterns=list(_FILES)
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ElmoxError(
            f"{hub_id} is not a local path, and the hub download failed: {reason}"
        ) from error
    except RuntimeError as error:  # of pathlib, which has no other class for it
        raise ElmoxError(
            f"{hub_id} is not a local path, and the hub download failed ({error}): set HF_HOME to "
            "a directory for its cache"
        ) from error
    return Path(folder)


def upload(
    folder: Path,
    hub_id: str,
    *,
    revision: str | None = None,
    token: Token = None,
    private: bool | None = None,
    message: str | None = None,
) -> str:
    """Upload a model directory in one commit and return the commit's address.

    The repository, and the branch, are created if they do not exist. Files that are only there are
    kept.

    Args:
        folder: the directory.
        hub_id: `owner/name`.
        revision: the branch; None for the default branch.
        token: access token; True or None for the stored one.
        private: whether a new repository is private; None for the owner's default.
        message: of the commit.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    if _HUB_ID.fullmatch(hub_id) is None:
        raise ElmoxError(f"{hub_id!r} is not a hub id: expected owner/name")
    api = HfApi(token=token)
    try:
        api.create_repo(hub_id, private=private, exist_ok=True)
        if revision is not None:
            api.create_branch(hub_id, branch=revision, exist_ok=True)
        commit = api.upload_folder(
            repo_id=hub_id,
            folder_path=folder,
            revision=revision,
            commit_message=message or "Upload a model with elmox",
        )
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ElmoxError(f"the upload to {hub_id} failed: {reason}") from error
    return str(commit.commit_url)
