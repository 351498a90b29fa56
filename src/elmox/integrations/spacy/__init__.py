"""ELMo in spaCy pipelines: components and an architecture, found by spaCy through entry points.

    nlp = spacy.blank("en")
    nlp.add_pipe("elmox")                                        # vectors: component.py
    nlp.add_pipe("elmox_ner", config={"model": "runs/ner/..."})  # a fitted model: taggers.py

    [components.tok2vec.model.embed]                             # for `spacy train`: tok2vec.py
    @architectures = "elmox.Tok2Vec.v1"

spaCy imports this when a pipeline is made, so it imports neither torch nor the model code.
"""

from elmox.integrations.packages import importing

with importing("spaCy", "spacy", "spacy", "thinc"):
    import spacy  # noqa: F401
