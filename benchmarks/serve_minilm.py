"""A plain server of all-MiniLM-L6-v2 on FastAPI, to measure next to `elmox serve`.

What one would write in ten minutes: transformers, mean pooling, a route that computes each request
by itself in a thread. Started by `serve.py`.

    PYTHONPATH=FOLDER_WITH_TRANSFORMERS python serve_minilm.py MODEL_FOLDER PORT
"""

import sys
from typing import Any

import torch
import uvicorn
from fastapi import Body, FastAPI
from transformers import AutoModel, AutoTokenizer  # type: ignore[import-not-found, unused-ignore]


def create_app(folder: str) -> FastAPI:
    """The server."""
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    app = FastAPI()

    @app.get("/readyz")
    def ready() -> dict[str, str]:
        return {"status": "ready"}

    @app.post("/v1/embeddings")
    def embeddings(input: list[str] = Body(embed=True)) -> dict[str, Any]:  # noqa: B008
        pieces = tokenizer(input, padding=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            hidden = model(**pieces).last_hidden_state
        mask = pieces["attention_mask"].unsqueeze(-1)
        vectors = (hidden * mask).sum(1) / mask.sum(1)
        data = [{"index": i, "embedding": v} for i, v in enumerate(vectors.tolist())]
        return {"object": "list", "data": data}

    return app


if __name__ == "__main__":
    uvicorn.run(create_app(sys.argv[1]), port=int(sys.argv[2]), log_level="warning")
