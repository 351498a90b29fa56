"""ELMo behind the Auto classes of transformers.

from transformers import AutoModel, AutoTokenizer
import elmox.integrations.transformers                      # registers the classes

model = AutoModel.from_pretrained("my-model")               # a model directory of elmox
tokenizer = AutoTokenizer.from_pretrained("my-model")
model(**tokenizer(["Live in the present"], return_tensors="pt")).last_hidden_state
"""

from elmox.integrations.packages import importing

with importing("transformers", "transformers", "transformers"):
    from transformers import (
        AutoConfig,
        AutoModel,
        AutoModelForTokenClassification,
        AutoTokenizer,
    )

from elmox.integrations.transformers.config import ElmoConfig
from elmox.integrations.transformers.model import ElmoModel, ElmoPreTrainedModel
from elmox.integrations.transformers.token_classification import ElmoForTokenClassification
from elmox.integrations.transformers.tokenizer import ElmoTokenizer

__all__ = [
    "ElmoConfig",
    "ElmoForTokenClassification",
    "ElmoModel",
    "ElmoPreTrainedModel",
    "ElmoTokenizer",
]

AutoConfig.register(ElmoConfig.model_type, ElmoConfig, exist_ok=True)
AutoTokenizer.register(ElmoConfig, ElmoTokenizer, exist_ok=True)
AutoModel.register(ElmoConfig, ElmoModel, exist_ok=True)
AutoModelForTokenClassification.register(ElmoConfig, ElmoForTokenClassification, exist_ok=True)
