"""The biLM as a `PreTrainedModel`: character ids (B, T, C) to all layers (L+1, B, T, D)."""

from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput

from elmox.elmo import Elmo
from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.inference.layer_choice import choose_layers
from elmox.inference.layers import pad_sentences
from elmox.inference.runner import infer_layers
from elmox.integrations.allennlp_ids import (
    bounded,
    character_ids,
    distinct_words,
    fit_slots,
    token_counts,
)
from elmox.integrations.spelled_words import encode_spelling
from elmox.integrations.transformers.config import ElmoConfig, is_native
from elmox.io.transfer import to_device
from elmox.kernels.torch_modes import autocast_off, not_compiled
from elmox.model.bilm import BiLm
from elmox.model.checkpoint import Checkpoint
from elmox.model.init import random_bilm
from elmox.model.layer_mix import LayerMix
from elmox.model.state import zero_state
from elmox.pretrained.load import load_checkpoint


class ElmoPreTrainedModel(PreTrainedModel):  # type: ignore[misc]  # transformers has no types mypy reads
    """Loading, initialization and frozen weights, for every model."""

    config_class = ElmoConfig
    base_model_prefix = "elmo"
    main_input_name = "input_ids"
    config: ElmoConfig

    @classmethod
    def from_elmo(cls, model: str | Path | None = None, **options: Any) -> Self:
        """Make a model from anything that `Elmo.from_pretrained` loads.

        A head has random weights.

        Args:
            model: the model; None for the bundled English one.
            **options: of `ElmoConfig`, such as `num_labels` or `layers`; `revision` and `token` of
                a hub id.
        """
        source = {name: options.pop(name, None) for name in ("revision", "token")}
        checkpoint = load_checkpoint(model, **source)
        config = ElmoConfig(checkpoint.config.to_dict(), **options)
        network: Self = cls._frozen(None, config=config, state_dict=_state_dict(checkpoint))
        return network

    @classmethod
    def from_pretrained(cls, path: str | Path, *inputs: Any, **options: Any) -> Any:
        """Load a model that `save_pretrained` or elmox saved, or one of the hub.

        Args:
            path: a directory or a hub id.
            *inputs: as in every `from_pretrained`.
            **options: as in every `from_pretrained`.
        """
        if not is_native(path, options):
            return cls._frozen(path, *inputs, **options)
        revision, token = options.get("revision"), options.get("token")
        if not isinstance(options.get("config"), ElmoConfig):
            options.pop("config", None)
            config, options = ElmoConfig.from_pretrained(path, return_unused_kwargs=True, **options)
            options["config"] = config
        tensors = _state_dict(load_checkpoint(path, revision=revision, token=token))
        return cls._frozen(None, *inputs, state_dict=tensors, **options)

    @classmethod
    def _frozen(cls, *inputs: Any, **options: Any) -> Any:
        """Load a model with the loader of transformers, then freeze it."""
        loaded = super().from_pretrained(*inputs, **options)
        (loaded[0] if isinstance(loaded, tuple) else loaded).freeze()
        return loaded

    def freeze(self) -> None:
        """Freeze the biLM if the configuration demands it.

        transformers makes new parameters when it loads a model, and those learn.
        """
        self.base_model.bilm.requires_grad_(not self.config.freeze_bilm)

    def _init_weights(self, module: nn.Module) -> None:
        """Initialize weights that no file had; `init` leaves the others alone."""
        if isinstance(module, LayerMix):
            init.ones_(module.gamma)
            if module.weights is not None:
                init.zeros_(module.weights)
        elif isinstance(module, nn.LSTM):
            for name, parameter in module.named_parameters():
                if name.startswith("weight"):
                    init.xavier_uniform_(parameter)
                else:
                    init.zeros_(parameter)
        elif isinstance(module, nn.Linear):
            init.normal_(module.weight, std=0.02)
            init.zeros_(module.bias)


class ElmoModel(ElmoPreTrainedModel):
    """Character ids to ELMo's layers.

    Args:
        config: the configuration.

    Attributes:
        bilm: the biLM.
    """

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        self.bilm = BiLm(config.architecture)
        self._choice = choose_layers(config.layers, self.bilm.config.num_layers, {})
        if not self._choice.single:
            raise ArgumentError(
                "{}: expected one layer, 'average', 'top' or an index; all layers are the "
                "hidden_states",
                Argument("layers", config.layers),
            )
        self._random: tuple[BiLm] | None = None  # in a tuple: it is no part of this model
        self.freeze()
        self.post_init()
        self._random = None

    def _init_weights(self, module: nn.Module) -> None:
        """Initialize a part of the biLM as for training, if none of the biLM was loaded.

        transformers calls this for each module that has parameters of its own.
        """
        missing = [p for p in module.parameters(recurse=False) if not _is_loaded(p)]
        if not missing:
            return
        if any(map(_is_loaded, self.bilm.parameters())):
            raise ElmoxError("the file lacks some weights of the biLM: it is damaged")
        if self._random is None:
            seed = int(torch.randint(2**31, ()))
            self._random = (random_bilm(self.bilm.config, seed),)
        name = next(name for name, part in self.bilm.named_modules() if part is module)
        new = dict(self._random[0].get_submodule(name).named_parameters(recurse=False))
        for parameter_name, parameter in module.named_parameters(recurse=False):
            init.copy_(parameter, new[parameter_name].to(parameter))

    def to_elmo(self) -> Elmo:
        """Return the same biLM as `elmox.Elmo`."""
        tensors = {name: tensor.detach() for name, tensor in self.bilm.state_dict().items()}
        return Elmo(Checkpoint(self.bilm.config, tensors, "a model of transformers"))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **options: Any,
    ) -> Any:
        """Read a batch.

        Args:
            input_ids: character ids (B, T, C), as `ElmoTokenizer` returns them; rows of zeros on
                the right are padding.
            attention_mask: (B, T), 0 at tokens that are padding too.
            output_hidden_states: return all layers.
            return_dict: False returns a tuple.
            **options: ignored; other models have them.

        Returns:
            `last_hidden_state`, (B, T, D), the layer of `config.layers`; and `hidden_states`, L+1
            tensors (B, T, D).
        """
        layers, _ = self.layers(input_ids, attention_mask)
        wants_all = output_hidden_states or (
            output_hidden_states is None and self.config.output_hidden_states
        )
        output = BaseModelOutput(
            last_hidden_state=self._choice.apply(layers)[0],
            hidden_states=tuple(layers) if wants_all else None,
        )
        as_dict = self.config.return_dict if return_dict is None else return_dict
        return output if as_dict else output.to_tuple()

    @not_compiled
    def layers(self, input_ids: Tensor, attention_mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return all layers, (L+1, B, T, D), zero at padding, and a mask (B, T)."""
        ids = character_ids(input_ids)
        if attention_mask is not None:
            ids = ids * (attention_mask.numpy(force=True) > 0)[..., None]
        mask = np.any(ids, axis=-1)
        lengths = token_counts(mask) + 2
        learns = torch.is_grad_enabled() and any(p.requires_grad for p in self.bilm.parameters())
        config, device = self.bilm.config, self.bilm.device
        assert config.char_cnn is not None  # ElmoConfig accepts no other
        with torch.set_grad_enabled(learns), autocast_off(device):
            words, tokens = distinct_words(ids[mask])
            spelling = fit_slots(words, config.char_cnn.max_characters)
            vectors = encode_spelling(self.bilm, spelling)
            index = bounded(tokens, lengths, len(vectors) - 2, len(vectors) - 1)
            start = zero_state(config.lstm, len(lengths), device, self.bilm.dtype)
            if learns:
                rows = F.embedding(to_device(index, device), vectors)
                layers = self.bilm.learn(rows, lengths, start)
            else:
                everything = choose_layers("all", config.num_layers, {})
                layers, _ = infer_layers(self.bilm, vectors, index, lengths, start, everything)
        return pad_sentences(layers, lengths, min_steps=mask.shape[1])


def _state_dict(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Return the weights under the names of `ElmoModel`."""
    return {f"bilm.{name}": tensor for name, tensor in checkpoint.tensors.items()}


def _is_loaded(parameter: nn.Parameter) -> bool:
    """Return whether transformers has read a parameter from a file."""
    return bool(getattr(parameter, "_is_hf_initialized", False))
