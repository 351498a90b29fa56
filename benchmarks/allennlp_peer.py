"""AllenNLP's own Elmo, for the scripts beside this one; see `elmox/bench/allennlp.py`."""

from elmox.bench.allennlp import load_allennlp

__all__ = ["load_allennlp"]
