"""One training step, and all state that a run carries from step to step.

A step does not depend on the number of processes that share its rows: losses are sums over all of
them, dropout is drawn by global row, candidates by step.

The host never waits for a step: it queues the device's work, and the result is read later, from a
`Pending`. So the next step is ready before the device has finished this one. Whether the loss is
finite is therefore checked on the device, which updates nothing after the first that is not.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from elmox.errors import ElmoxError
from elmox.inference.perplexity import StreamNll, stream_nll
from elmox.kernels.derived import weights_fixed
from elmox.kernels.row_update.plain import Gradient
from elmox.model.checkpoint import Checkpoint, Softmax, build_bilm
from elmox.model.softmax import softmax_from_tensors
from elmox.model.state import LstmState, zero_state
from elmox.pretrained.load import load_checkpoint
from elmox.training.corpus.corpus import Corpus
from elmox.training.distill import Distillation
from elmox.training.distributed import Processes
from elmox.training.keys import mixed_seed
from elmox.training.network import PRECISIONS, TrainingNetwork
from elmox.training.objective import make_objective
from elmox.training.optim import Optimizer, global_norm, learning_rate
from elmox.training.reader_process import batches_from_process, can_fork
from elmox.training.recipe import Recipe
from elmox.training.rows import Batch, Rows, deal_rows, pinned
from elmox.training.start import word_table

ROWS_MEASURED = 64  # for the variance of a teacher's layers


@dataclass(frozen=True)
class StepReport:
    """The result of a step, over all processes.

    Attributes:
        step: number of updates, including this one.
        loss: of the words, mean over positions and directions, before the update.
        teacher_loss: unexplained share of the teacher's variance; None without a teacher.
        grad_norm: global norm of the gradient, before clipping.
        lr: learning rate.
        stopping: whether a process has received a signal to stop.
    """

    step: int
    loss: float
    grad_norm: float
    lr: float
    stopping: bool
    teacher_loss: float | None = None


class Pending:
    """A step that the device may not have finished yet."""

    def __init__(self, step: int, lr: float, num_positions: int, totals: Tensor) -> None:
        """Start copying `totals`, (3,) or (4,).

        They are the summed loss, the number of stop signals, the summed loss against the teacher if
        there is one, and the gradient's norm.
        """
        self._step, self._lr, self._num_positions = step, lr, num_positions
        self._totals = totals.to("cpu", non_blocking=True)
        self._copied: torch.cuda.Event | None = None
        if totals.is_cuda:
            self._copied = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            self._copied.record(torch.cuda.current_stream(totals.device))

    def get(self) -> StepReport:
        """Wait for the step and return its result.

        Raises:
            ElmoxError: if the loss or a gradient is not finite.
        """
        if self._copied is not None:
            self._copied.synchronize()
        total, stopping, *teacher, norm = self._totals.tolist()
        loss = total / self._num_positions
        if not np.isfinite(loss) or not np.isfinite(norm):
            raise ElmoxError(
                f"step {self._step}: the loss is {loss:g} and the gradient's norm {norm:g}; "
                "nothing was updated: lower optim.lr, or raise optim.warmup"
            )
        teacher_loss = teacher[0] / self._num_positions if teacher else None
        return StepReport(self._step, loss, norm, self._lr, stopping > 0, teacher_loss)


class Trainer:
    """The network, its optimizer, and the state of every row.

    Attributes:
        recipe: the run's recipe.
        bilm: the biLM in training.
        softmax: its output layer.
        rows: the text of every step.
        num_steps: number of updates of the whole run.
        step: number of updates done, or at least queued on the device.
        num_exchanged: number of values in the last step's gradients, which processes sum up.
        optimizer: the optimizer with its state.
        state: LSTM state of this process's rows.
        distillation: the teacher, if there is one.
    """

    def __init__(
        self, recipe: Recipe, corpus: Corpus, start: Checkpoint, processes: Processes
    ) -> None:
        """Take the weights of `start`, which has a softmax for the corpus's vocabulary."""
        shape = recipe.train
        if shape.rows < processes.num:
            raise ElmoxError(
                f"train.rows is {shape.rows}, expected at least one for each of the "
                f"{processes.num} processes"
            )
        assert start.softmax is not None
        self.recipe, self._corpus, self._processes = recipe, corpus, processes
        # Without its arrays, which would stay in memory next to those in training.
        self._start = replace(start, tensors={}, softmax=None)
        lstm, device = start.config.lstm, processes.device
        self.bilm = build_bilm(start, "the model to start from").to(device).train()
        self.softmax = softmax_from_tensors(
            start.softmax.tensors, corpus.vocab_size, lstm.projection_dim, start.softmax.source
        ).to(device)
        self._frozen = shape.freeze == "body"
        self.bilm.requires_grad_(not self._frozen)
        self.softmax.requires_grad_(True)
        self._body = {} if self._frozen else dict(self.bilm.named_parameters())
        self._table = word_table(corpus.lexicon, start, "the model to start from")
        self.rows = Rows(
            corpus.train,
            self._table,
            num_rows=shape.rows,
            num_steps=shape.steps,
            vocab_size=corpus.vocab_size,
            num_directions=lstm.num_directions,
            seed=shape.seed,
            reset=shape.reset,
            reset_at=shape.reset_at,
        )
        epoch_steps = max(1, round(shape.epochs * self.rows.steps_per_epoch))
        self.num_steps = min(epoch_steps, shape.max_steps or epoch_steps)
        self._local_rows = deal_rows(shape.rows, processes.rank, processes.num)
        num_pieces = min(shape.accumulate, len(self._local_rows))
        self._pieces = np.array_split(self._local_rows, num_pieces)
        self._row_numbers = [self._to_device(rows) for rows in self._pieces]
        precision, teacher = PRECISIONS[shape.precision], recipe.distill.teacher
        network = TrainingNetwork(self.bilm, shape.dropout, precision, keep_layers=bool(teacher))
        alone = processes.num == 1 or self._frozen
        self._network: nn.Module = network if alone else DistributedDataParallel(network)
        self._objective = make_objective(recipe.softmax, self.softmax, shape.seed, processes)
        self.distillation = self._distillation(precision) if teacher else None
        self.optimizer = Optimizer(recipe.optim, self.parameters())
        self.step = 0
        self.num_exchanged = 0
        self.state = zero_state(lstm, len(self._local_rows), device, torch.float32)
        self._failed = torch.zeros((), device=device)  # 1 from the first step that was not finite

    def parameters(self) -> dict[str, nn.Parameter]:
        """Return the trained parameters by name."""
        return {
            **{f"model.{name}": p for name, p in self._body.items()},
            **{f"softmax.{name}": p for name, p in self.softmax.named_parameters()},
            **{f"distill.{name}": p for name, p in self._maps().items()},
        }

    def batches(self) -> Iterator[list[Batch]]:
        """Yield the text of all remaining steps, for this process."""
        steps = (self.step, self.num_steps, self._pieces)
        if self._processes.device.type != "cuda":
            return self.rows.batches(*steps)
        if can_fork():
            return batches_from_process(self.rows, *steps)
        return self.rows.batches(*steps, prepare=pinned)

    def advance(self, batches: Sequence[Batch], stop: bool = False) -> Pending:
        """Do one update, unless a loss or gradient up to this step is not finite.

        Args:
            batches: this process's text in pieces, an item of `batches`.
            stop: whether this process has received a signal to stop; it reaches all processes.
        """
        losses = self._backward(batches)
        gradients = {f"softmax.{n}": g for n, g in self._objective.gradients().items()}
        for name, parameter in self._body.items():
            if parameter.grad is not None:
                gradients[f"model.{name}"] = Gradient(parameter.grad)
        for name, parameter in self._maps().items():
            assert parameter.grad is not None
            gradients[f"distill.{name}"] = Gradient(self._processes.mean(parameter.grad))
        self.num_exchanged = sum(gradient.values.numel() for gradient in gradients.values())
        norm = global_norm(gradient.values for gradient in gradients.values())
        words, *teacher = losses
        local = torch.stack([words, torch.full_like(words, float(stop)), *teacher]).double()
        totals = torch.cat([self._processes.sum(local), norm.double()[None]])
        self._failed.masked_fill_(totals.sum().isfinite().logical_not_(), 1.0)
        lr = learning_rate(self.recipe.optim, self.step, self.num_steps)
        pending = Pending(self.step + 1, lr, self._num_positions(), totals)
        self.optimizer.step(gradients, lr, self.step, norm, self._failed)
        self.step += 1
        return pending

    def held_out(self, num_rows: int) -> StreamNll:
        """Return the full-softmax likelihood of the held-out text."""
        valid = self._corpus.valid
        assert valid is not None

        @torch.no_grad()
        def encode(ids: NDArray[np.int64]) -> Tensor:
            vectors: Tensor = self.bilm.token_encoder(self._table(ids))
            return vectors

        stream = valid.read(0, valid.num_positions + 1)
        with weights_fixed():
            return stream_nll(self.bilm, self.softmax, encode, stream, num_rows)

    def model(self) -> Checkpoint:
        """Return the model in its current state."""
        return replace(
            self._start,
            tensors=self.bilm.state_dict(),
            description=f"{self.step} steps of training by elmox, from {self._start.description}",
            softmax=Softmax(self.softmax.state_dict(), self._corpus.vocab()),
            warm_state=None,  # that of `start` belongs to other weights
            pooling=None,
        )

    def check_finite(self) -> None:
        """Raise an `ElmoxError` if a weight is not finite, so that it is not saved."""
        for name, parameter in self.parameters().items():
            if not torch.isfinite(parameter).all():
                raise ElmoxError(
                    f"step {self.step}: {name} is no longer finite, so nothing was saved: lower "
                    "optim.lr, or raise optim.warmup, and continue from the last checkpoint"
                )

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of a checkpoint, with the state of all processes' rows."""
        tensors = self._all_rows("state", self.state)
        if self.distillation is not None:
            tensors |= self._all_rows("teacher_state", self.distillation.state)
        tensors |= {f"model.{name}": t for name, t in self.bilm.state_dict().items()}
        tensors |= {f"softmax.{name}": t for name, t in self.softmax.state_dict().items()}
        if self.distillation is not None:
            tensors |= {f"distill.{name}": p.detach() for name, p in self._maps().items()}
        for name, slots in self.optimizer.slots.items():
            tensors |= {f"optim.{name}.{slot}": tensor for slot, tensor in slots.items()}
        return tensors

    def restore(self, tensors: Mapping[str, Tensor], step: int, lr: float | None = None) -> None:
        """Restore the tensors of a checkpoint.

        Args:
            tensors: those of `tensors()`.
            step: number of updates done.
            lr: learning rate of the last one.
        """
        planned = learning_rate(self.recipe.optim, step - 1, self.num_steps)
        if lr is not None and lr != planned:
            raise ElmoxError(
                f"the checkpoint's last update had a learning rate of {lr:g}, this recipe's would "
                f"have had {planned:g}: a run in its decay cannot become longer or shorter; resume "
                "an earlier checkpoint, or keep train.epochs, train.max_steps and optim.decay_steps"
            )
        shapes = {name: tensor.shape for name, tensor in self.tensors().items()}
        for name, shape in shapes.items():
            if name not in tensors or tensors[name].shape != shape:
                raise ElmoxError(f"the checkpoint lacks {name} of shape {tuple(shape)}")
        self.state = self._local_state("state", tensors)
        if self.distillation is not None:
            self.distillation.state = self._local_state("teacher_state", tensors)
            self.distillation.maps.load_state_dict(_under("distill.", tensors))
        self.bilm.load_state_dict(_under("model.", tensors))
        self.softmax.load_state_dict(_under("softmax.", tensors))
        for name, slots in self.optimizer.slots.items():
            for slot, tensor in slots.items():
                tensor.copy_(tensors[f"optim.{name}.{slot}"])
        self.step = step

    def _all_rows(self, name: str, state: LstmState) -> dict[str, Tensor]:
        """Return the tensors of an LSTM state, of all processes' rows."""
        tensors = {}
        for part, local in (("hidden", state.hidden), ("cell", state.cell)):
            all_rows = torch.zeros(
                *local.shape[:2], self.recipe.train.rows, local.shape[3], device=local.device
            )
            all_rows[:, :, torch.from_numpy(self._local_rows)] = local.float()
            tensors[f"{name}.{part}"] = self._processes.sum(all_rows)
        return tensors

    def _local_state(self, name: str, tensors: Mapping[str, Tensor]) -> LstmState:
        """Return the LSTM state of this process's rows from the tensors of a checkpoint."""
        rows, device = torch.from_numpy(self._local_rows), self._processes.device
        return LstmState(
            tensors[f"{name}.hidden"][:, :, rows].to(device),
            tensors[f"{name}.cell"][:, :, rows].to(device),
        )

    def _distillation(self, precision: torch.dtype) -> Distillation:
        """Return the teacher, its variance measured on the first text of the run."""
        source = self.recipe.distill.teacher
        distillation = Distillation(
            load_checkpoint(source),
            source,
            self.bilm.config,
            precision=precision,
            seed=self.recipe.train.seed,
            device=self._processes.device,
            num_rows=len(self._local_rows),
        )
        first = self.rows.read(0, np.arange(min(ROWS_MEASURED, self.recipe.train.rows)))
        distillation.measure(first, self._to_device(first.inputs))
        return distillation

    def _maps(self) -> dict[str, nn.Parameter]:
        return dict(self.distillation.maps.named_parameters()) if self.distillation else {}

    def _num_positions(self) -> int:
        """Return the number of predictions per step, over all processes and directions."""
        shape = self.recipe.train
        return self.bilm.config.lstm.num_directions * shape.rows * shape.steps

    def _to_device(self, array: NDArray[Any]) -> Tensor:
        """Copy an array to the device, from page-locked memory without waiting."""
        return torch.from_numpy(array).to(self._processes.device, non_blocking=True)

    def _backward(self, batches: Sequence[Batch]) -> list[Tensor]:
        """Compute the gradients of this process's rows.

        Returns:
            The sum of its losses; and that against the teacher, if there is one.
        """
        shape, distillation = self.recipe.train, self.distillation
        for parameter in (*self._body.values(), *self._maps().values()):
            parameter.grad = None
        targets = [self._to_device(batch.targets).flatten(1) for batch in batches]
        self._objective.begin(self.step, targets[0] if len(targets) == 1 else torch.cat(targets, 1))
        # Gradients are averaged over processes, so each multiplies its sum by their number.
        scale = self._processes.num / self._num_positions()
        if self.recipe.optim.sum_over_steps:
            scale *= shape.steps
        sites = self.bilm.config.lstm.num_layers + 1
        keys = [mixed_seed("dropout", shape.seed, self.step, site) for site in range(sites)]
        losses: list[Tensor] = []
        teacher_losses: list[Tensor] = []
        states: list[LstmState] = []
        teacher_states: list[LstmState] = []
        for number, batch in enumerate(batches):
            inputs, rows = self._to_device(batch.inputs), self._row_numbers[number]
            with self._until_last(number), torch.set_grad_enabled(not self._frozen):
                state = self._piece_state(self.state, number, batch)
                window = self._network(batch.table, inputs, state, rows, keys)
                with torch.enable_grad():
                    loss = self._objective.loss(window.top.flatten(1, 2), targets[number])
                    total = loss
                    if distillation is not None:
                        state = self._piece_state(distillation.state, number, batch)
                        teacher_loss, state = distillation.loss(
                            window.layers, batch, inputs, rows, state
                        )
                        total = loss + self.recipe.distill.weight * teacher_loss
                        teacher_losses.append(teacher_loss.detach())
                        teacher_states.append(state)
                    torch.autograd.backward(total, torch.full_like(total, scale))
            losses.append(loss.detach())
            states.append(LstmState(window.hidden.detach(), window.cell.detach()))
        self.state = reduce(LstmState.append, states)
        if distillation is not None:
            distillation.state = reduce(LstmState.append, teacher_states)
        return [sum(each[1:], start=each[0]) for each in (losses, teacher_losses) if each]

    def _piece_state(self, state: LstmState, number: int, batch: Batch) -> LstmState:
        """Return the LSTM state of a piece's rows, zero for those that are reset."""
        start = self._pieces[number][0] - self._local_rows[0]
        rows = slice(start, start + len(self._pieces[number]))
        hidden = state.hidden[:, :, rows].contiguous()  # all rows: no copy
        cell = state.cell[:, :, rows].contiguous()
        if batch.kept is None:
            return LstmState(hidden, cell)
        kept = self._to_device(batch.kept)[:, None]
        return LstmState(hidden * kept, cell * kept)

    def _until_last(self, number: int) -> AbstractContextManager[None]:
        """Return a context that defers the exchange of gradients to the step's last piece."""
        if isinstance(self._network, DistributedDataParallel) and number < len(self._pieces) - 1:
            return self._network.no_sync()
        return nullcontext()


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
