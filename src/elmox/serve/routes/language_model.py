"""`/v1/score` and `/v1/predict`: the biLM as a language model."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from elmox.inference.language_model import SentenceScore
from elmox.serve.body import read_object
from elmox.serve.models import LoadedModel
from elmox.serve.operations import Predict, Score
from elmox.serve.refusals import invalid, json_response
from elmox.serve.routes.describe import Endpoints
from elmox.serve.schemas import PredictBody, Predictions, ScoreBody, Scores, checked
from elmox.serve.service import Service, usage

SCORE_EXAMPLES = {"two texts": {"input": ["I will buy you a present.", "Me buy will present."]}}
PREDICT_EXAMPLES: dict[str, dict[str, Any]] = {
    "a gap": {"input": "I will buy you a ___.", "k": 5},
    "the next word": {"input": ["Live", "in", "the"], "position": 3, "direction": "left"},
}


def add_endpoints(endpoints: Endpoints, service: Service) -> None:
    """Add both endpoints."""

    async def score(request: Request) -> Response:
        """Return natural log-probabilities of texts and of their tokens, in both directions."""
        body = checked(ScoreBody, await read_object(request, service.limits))
        model = _with_softmax(service.model(request, body.model))
        sentences = await service.tokenize(model.elmo, body.input)
        scores = await service.admit_and_compute(request, Score(model.elmo), sentences)
        data = [{"index": index, **_score(score)} for index, score in enumerate(scores)]
        num_tokens = sum(map(len, sentences))
        return json_response(
            {"object": "list", "model": model.name, "data": data, "usage": usage(num_tokens)}
        )

    async def predict(request: Request) -> Response:
        """Return the likeliest words at a position of a text, or where the token `___` is."""
        body = checked(PredictBody, await read_object(request, service.limits))
        model = _with_softmax(service.model(request, body.model))
        sentences = await service.tokenize(model.elmo, [body.input])
        operation = Predict(model.elmo, body.position, body.k, body.direction)
        [predictions] = await service.admit_and_compute(request, operation, sentences)
        data = [{"word": word, "probability": value} for word, value in predictions]
        num_tokens = len(sentences[0])
        return json_response(
            {"object": "list", "model": model.name, "data": data, "usage": usage(num_tokens)}
        )

    endpoints.add_post(
        "/v1/score",
        score,
        ScoreBody,
        Scores,
        "Log-probabilities of texts",
        SCORE_EXAMPLES,
    )
    endpoints.add_post(
        "/v1/predict",
        predict,
        PredictBody,
        Predictions,
        "Likely words at a position",
        PREDICT_EXAMPLES,
    )


def _with_softmax(model: LoadedModel) -> LoadedModel:
    if not model.has_softmax:
        raise invalid("model", f"{model.name} has no softmax, so it cannot predict words")
    return model


def _score(score: SentenceScore) -> dict[str, Any]:
    return {
        "tokens": score.tokens,
        "log_prob": score.log_prob,
        "perplexity": score.perplexity,
        "forward": score.forward,
        "backward": score.backward,
        "unknown": score.unknown.tolist(),
    }
