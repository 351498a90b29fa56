"""Names of the models that can be loaded, for help texts; `recognize.py` reads them.

Importing this does not import torch.
"""

FORMATS = (
    "an elmox directory",
    "weights.hdf5",
    "an NLPL zip",
    "an AllenNLP model.tar.gz",
    "an ELMoForManyLangs folder",
    "a TensorFlow checkpoint",
)
