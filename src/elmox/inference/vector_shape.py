"""The shape of a model's vectors, for every class that turns text into them."""

from typing import Protocol


class _Config(Protocol):
    @property
    def dim(self) -> int: ...

    @property
    def num_layers(self) -> int: ...


class VectorShape:
    """The shape of the vectors, read from the configuration."""

    config: _Config

    @property
    def dim(self) -> int:
        """Width of a vector."""
        return self.config.dim

    @property
    def num_layers(self) -> int:
        """Number of layers, the token layer included."""
        return self.config.num_layers
