"""`/v1/tag/{task}`: predictions of fitted task models."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from elmox.errors import shortened
from elmox.serve.admission import check_inputs, check_tokens
from elmox.serve.body import read_object
from elmox.serve.operations import Tag
from elmox.serve.record import record_of
from elmox.serve.refusals import invalid, json_response
from elmox.serve.routes.describe import Endpoints
from elmox.serve.schemas import TagBody, TagList, checked, is_tokens
from elmox.serve.service import Service, usage
from elmox.tasks.predictor import TaskPredictor

EXAMPLES: dict[str, dict[str, Any]] = {
    "texts": {"input": ["Ada Lovelace lived in London.", ["Live", "in", "the", "present"]]},
    "objects": {"input": [{"premise": "Two dogs run.", "hypothesis": "Animals move."}]},
}


def add_endpoints(endpoints: Endpoints, service: Service) -> None:
    """Add the endpoint."""

    async def tag(request: Request) -> Response:
        """Return what a task model predicts for each input, as `elmox tag` prints it."""
        tagger = service.table.tagger(name := request.path_params["task"])
        body = checked(TagBody, await read_object(request, service.limits))
        values = [body.input] if isinstance(body.input, str) else body.input
        check_inputs(service.limits, len(values))
        inputs = [_fields(index, value) for index, value in enumerate(values)]
        lengths = [_num_tokens(tagger, value) for value in inputs]
        num_tokens = check_tokens(service.limits, lengths)
        record_of(request).model = name
        service.admit(request, len(inputs), num_tokens)
        predictions = await service.compute(request, Tag(tagger), inputs, num_tokens)
        data = [
            {"index": index, "predictions": prediction}
            for index, prediction in enumerate(predictions)
        ]
        return json_response(
            {"object": "list", "task": name, "data": data, "usage": usage(num_tokens)}
        )

    endpoints.add_post(
        "/v1/tag/{task}",
        tag,
        TagBody,
        TagList,
        "Predictions of a task model",
        EXAMPLES,
    )


def _fields(index: int, value: Any) -> dict[str, Any]:
    """Return an input as the object that a task model reads."""
    if isinstance(value, str):
        return {"text": value}
    if is_tokens(value):
        return {"tokens": value}
    if isinstance(value, dict):
        return value
    raise invalid("input", f"{index} is {shortened(value)}: expected a text, tokens or an object")


def _num_tokens(tagger: TaskPredictor, value: Mapping[str, Any]) -> int:
    """Count the tokens of all texts of an object, however they are nested."""
    total = 0
    waiting: list[Any] = list(value.values())
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            total += len(tagger.tokenize(item))
        elif is_tokens(item):
            total += len(item)
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            waiting += item.values()
    return total
