"""The legacy behavior, in which LSTM state is carried from call to call."""

from elmox.inference.text_encoder import TextEncoder
from elmox.model.state import CarriedState


class StatefulElmo(TextEncoder):
    """Row i of a call starts where row i of the call before ended, as in bilm-tf and AllenNLP.

    Results depend on everything read before: use it to reproduce legacy vectors. A call with fewer
    rows leaves the others' state as it was; one with more starts the new rows afresh. How a call is
    split into batches changes nothing. Weights, mixes and start state are shared with the model.
    """

    def __init__(self, elmo: TextEncoder) -> None:
        """Start with no row read; `elmo` itself stays without memory."""
        self._rows = CarriedState(elmo.start_state)
        super().__init__(elmo.reader, elmo.mixes, elmo.start, self._rows, elmo.pooling)
        self._elmo = elmo

    def reset(self) -> None:
        """Forget everything: the next call starts afresh."""
        self._rows.reset()

    def __repr__(self) -> str:
        """Return the model, and the number of rows whose state is carried."""
        return f"StatefulElmo({self._elmo!r}, {self._rows.num_rows} rows carried)"
