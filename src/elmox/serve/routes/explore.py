"""`/explore/`: the explorer, with this server as its back end."""

import asyncio
from functools import cache, lru_cache

import numpy as np
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from elmox.elmo import Elmo
from elmox.explore.files import HEADERS, PAGE_JSON, media_type, page_files, server_page_json
from elmox.explore.words import VECTORS_FILE, WORDS_FILE, frequent_words, word_files
from elmox.serve.operations import WordVectors
from elmox.serve.refusals import Refusal
from elmox.serve.routes.describe import Endpoints
from elmox.serve.service import Service

FOLDER = "/explore/"
API = "../"  # the endpoints, seen from the page
WORDS_AT_ONCE = 256  # so that other requests are served in between

# The page itself is public; what it shows of a model needs a key.
PUBLIC_PATHS = {FOLDER, FOLDER + PAGE_JSON, *(FOLDER + name for name in page_files())}


def add_endpoints(endpoints: Endpoints, service: Service) -> None:
    """Add the page and its files."""
    files, read = page_files(), cache(_read)
    words = FrequentWordFiles(service)

    async def index(request: Request) -> Response:
        return RedirectResponse(FOLDER.removeprefix("/"))  # relative: a proxy may add a prefix

    async def file(request: Request) -> Response:
        name = request.path_params["path"] or "index.html"
        if name in files:
            content = read(name)
        elif name == PAGE_JSON:
            if not service.is_ready:
                message = "the models are still being loaded"
                raise Refusal(503, "not_ready", message, retry_after=1)
            digest = await asyncio.to_thread(_digest, service.table.model(None).elmo)
            content = server_page_json(API, digest)
        elif name in (WORDS_FILE, VECTORS_FILE):
            content = (await words.get(request))[name]
        else:
            raise Refusal(404, "not_found", "the page has no such file")
        return Response(content, headers={**HEADERS, "content-type": media_type(name)})

    endpoints.add_get("/", index, "Explorer", described=False)
    endpoints.add_get(FOLDER + "{path:path}", file, "Explorer", described=False)


class FrequentWordFiles:
    """The files of frequent words, computed when they are first requested."""

    def __init__(self, service: Service) -> None:
        self._service, self._lock = service, asyncio.Lock()
        self._files: dict[str, bytes] | None = None

    async def get(self, request: Request) -> dict[str, bytes]:
        """Return the content of both files by their names."""
        async with self._lock:
            if self._files is None:
                elmo = self._service.table.model(None).elmo
                operation = WordVectors(elmo)
                words = await asyncio.to_thread(frequent_words, elmo)
                vectors = []
                for start in range(0, len(words), WORDS_AT_ONCE):
                    part = words[start : start + WORDS_AT_ONCE]
                    vectors += await self._service.compute(request, operation, part, len(part))
                self._files = word_files(words, np.stack(vectors))
            return self._files


@lru_cache(maxsize=8)
def _digest(elmo: Elmo) -> str:
    return elmo.digest()


def _read(name: str) -> bytes:
    return page_files()[name].read_bytes()
