"""`/docs`: a plain page of the endpoints, which needs nothing from other servers."""

import json
from html import escape
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from elmox.serve.refusals import json_response
from elmox.serve.routes.describe import Endpoints
from elmox.serve.service import Service

STYLE = (
    "body{font:16px/1.5 system-ui;max-width:50em;margin:2em auto;padding:0 1em}"
    "pre{background:#f4f4f4;padding:.7em;overflow:auto}code{font-size:.9em}"
)
SECURITY = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
    "x-content-type-options": "nosniff",
}


def add_endpoints(endpoints: Endpoints, service: Service) -> None:
    """Add the page and the schema behind it."""

    async def docs(request: Request) -> Response:
        return HTMLResponse(docs_page(endpoints.schema()), headers=SECURITY)

    async def schema(request: Request) -> Response:
        return json_response(endpoints.schema())

    endpoints.add_get("/openapi.json", schema, "OpenAPI schema", described=False)
    endpoints.add_get("/docs", docs, "Documentation", described=False)


def docs_page(schema: dict[str, Any]) -> str:
    """Return the endpoints of an OpenAPI schema as a page, with a command per example."""
    parts: list[str] = []
    for path, methods in schema["paths"].items():
        for method, endpoint in methods.items():
            parts.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2>")
            parts.append(f"<p>{escape(endpoint['summary'])}.</p>")
            if "description" in endpoint:
                parts.append(f"<pre>{escape(endpoint['description'])}</pre>")
            parts += [_example(path, *example) for example in _examples(endpoint)]
    links = "<p><a href='./'>Explorer</a>, <a href='openapi.json'>OpenAPI schema</a></p>"
    return _page("elmox: endpoints", links + "".join(parts))


def _examples(endpoint: dict[str, Any]) -> list[tuple[str, Any]]:
    content = endpoint.get("requestBody", {}).get("content", {}).get("application/json", {})
    return [(name, example["value"]) for name, example in content.get("examples", {}).items()]


def _example(path: str, name: str, value: Any) -> str:
    command = (
        f"curl http://127.0.0.1:8000{path} -H 'content-type: application/json' "
        f"-d '{json.dumps(value)}'"
    )
    return f"<p>{escape(name)}:</p><pre>{escape(command)}</pre>"


def _page(title: str, content: str) -> str:
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{title}</title>"
        f"<style>{STYLE}</style><h1>{title}</h1>{content}</html>"
    )
