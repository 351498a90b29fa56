"""The cost of a recipe before it is run: parameters, memory, time.

Speed and, on a GPU, memory are measured in a few real steps on the current device. For N devices
they are computed:

    step(N) = step(1) / N + 2 (N-1)/N * bytes / bandwidth

The second term is a ring all-reduce of the gradients that a step exchanges: those of the whole body
and of the softmax rows that the step touches. Under torchrun, the bandwidth and a step of all
processes are measured too.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from elmox.config import LstmConfig
from elmox.io.memory import memory_explained
from elmox.training.corpus.corpus import Corpus, open_corpus
from elmox.training.distributed import Processes, processes
from elmox.training.recipe import Recipe, TrainRecipe
from elmox.training.start import starting_point
from elmox.training.trainer import Pending, Trainer

BYTES = {"float32": 4, "bfloat16": 2}
WARM_UP = 2  # steps that are not measured
NUM_EXCHANGES = 10


@dataclass(frozen=True)
class Plan:
    """The cost of a run.

    Attributes:
        num_body, num_softmax: number of parameters.
        weight_bytes: weights, gradients and optimizer state, in float32. In a sampled softmax only
            the touched rows have gradients; frozen weights have neither gradients nor state.
        activation_bytes: computed size of what the LSTMs keep for the backward pass.
        peak_bytes: measured on the device; None on a CPU.
        exchanged_bytes: size of the gradients that processes exchange per step.
        num_steps, tokens_per_step, num_epochs: of the whole run.
        step_seconds, tokens_per_second: measured.
        device: name of the device.
        num_processes: number of processes that torchrun started.
        bandwidth: measured bytes per second between neighbors of these; None for one process.
        joint_step_seconds: measured time of a step of all of them; None for one process.
    """

    num_body: int
    num_softmax: int
    weight_bytes: int
    activation_bytes: int
    peak_bytes: int | None
    exchanged_bytes: int
    num_steps: int
    tokens_per_step: int
    num_epochs: float
    step_seconds: float
    tokens_per_second: float
    device: str
    num_processes: int = 1
    bandwidth: float | None = None
    joint_step_seconds: float | None = None

    @property
    def total_seconds(self) -> float:
        """Duration of the run on the current device, without evaluations and checkpoints."""
        return self.num_steps * self.step_seconds

    def seconds_on(self, num_devices: int, bandwidth: float) -> float:
        """Return the duration of the run on several such devices, by the formula above.

        Args:
            num_devices: N.
            bandwidth: bytes per second between any two neighbors.
        """
        share = (num_devices - 1) / num_devices
        exchange = 2 * share * self.exchanged_bytes / bandwidth
        return self.num_steps * (self.step_seconds / num_devices + exchange)


def plan(recipe: Recipe, *, device: str | None = None, seconds: float = 5.0) -> Plan:
    """Measure some steps of a recipe and compute the rest.

    All processes that torchrun started call this together, and get the same plan. The first one
    measures what one device does, while the others wait.

    Args:
        recipe: the recipe.
        device: cpu or cuda; by default a GPU if there is one.
        seconds: duration of the measurement, after two steps of warming up.
    """
    corpus = open_corpus(Path(recipe.data.dir), verify=True)
    with processes(device) as group:
        alone = group.agreed(lambda: _plan_alone(recipe, corpus, group.device, seconds))
        if group.num == 1:
            return alone
        bandwidth = measure_bandwidth(group, alone.exchanged_bytes)
        num_steps = max(1, int(seconds / alone.step_seconds))
        with memory_explained():
            trainer = Trainer(recipe, corpus, starting_point(recipe, corpus), group)
            joint = _step_seconds(trainer, group.device, lambda steps, _: steps >= num_steps)
            del trainer  # before the processes part
        joint = group.agreed(lambda: joint)
    return replace(alone, num_processes=group.num, bandwidth=bandwidth, joint_step_seconds=joint)


def measure_bandwidth(group: Processes, num_bytes: int) -> float:
    """Return the bytes per second between two neighbors, in a ring all-reduce of all processes.

    Args:
        group: the processes, all of which call this.
        num_bytes: size of what they sum up.
    """
    values = torch.zeros(max(1, num_bytes // 4), device=group.device)
    for number in range(WARM_UP + NUM_EXCHANGES):
        if number == WARM_UP:
            _wait_for(group.device)
            began = time.perf_counter()
        group.sum(values)
    _wait_for(group.device)
    seconds = group.agreed(lambda: (time.perf_counter() - began) / NUM_EXCHANGES)
    return 2 * (group.num - 1) / group.num * values.nbytes / seconds


def _plan_alone(recipe: Recipe, corpus: Corpus, where: torch.device, seconds: float) -> Plan:
    """Return the plan of a single process."""
    with memory_explained():
        trainer = Trainer(recipe, corpus, starting_point(recipe, corpus), Processes(0, 1, where))
        step = _step_seconds(trainer, where, lambda _, elapsed: elapsed > seconds)
    num_body = sum(p.numel() for p in trainer.bilm.parameters())
    num_softmax = sum(p.numel() for p in trainer.softmax.parameters())
    slots = trainer.optimizer.slots.values()
    num_slots = sum(array.numel() for arrays in slots for array in arrays.values())
    tokens = recipe.train.rows * recipe.train.steps
    return Plan(
        num_body=num_body,
        num_softmax=num_softmax,
        weight_bytes=4 * (num_body + num_softmax + trainer.num_exchanged + num_slots),
        activation_bytes=_activation_bytes(trainer.bilm.config.lstm, recipe.train),
        peak_bytes=torch.cuda.max_memory_allocated(where) if where.type == "cuda" else None,
        exchanged_bytes=4 * trainer.num_exchanged,
        num_steps=trainer.num_steps,
        tokens_per_step=tokens,
        num_epochs=trainer.num_steps / trainer.rows.steps_per_epoch,
        step_seconds=step,
        tokens_per_second=tokens / step,
        device=torch.cuda.get_device_name(where) if where.type == "cuda" else "cpu",
    )


def _step_seconds(
    trainer: Trainer, where: torch.device, is_enough: Callable[[int, float], bool]
) -> float:
    """Return the mean duration of some consecutive steps.

    A single step cannot be timed: the host has finished it long before the device.

    Args:
        trainer: takes the steps.
        where: its device.
        is_enough: called with the number of measured steps and their seconds so far.
    """
    if where.type == "cuda":
        torch.cuda.reset_peak_memory_stats(where)
    warm_up = WARM_UP if trainer.num_steps > WARM_UP else 0
    before: Pending | None = None
    began = time.perf_counter()
    for number, batches in enumerate(trainer.batches()):
        step = trainer.advance(batches)
        if before is not None:
            before.get()
        before = step
        if number + 1 == warm_up:
            _wait_for(where)
            began = time.perf_counter()
        elif number >= warm_up and is_enough(number + 1 - warm_up, time.perf_counter() - began):
            break
    step.get()
    _wait_for(where)
    return (time.perf_counter() - began) / (trainer.step - warm_up)


def _wait_for(where: torch.device) -> None:
    """Wait until the device has finished its work."""
    if where.type == "cuda":
        torch.cuda.synchronize(where)


def _activation_bytes(lstm: LstmConfig, shape: TrainRecipe) -> int:
    """Return the size of what LSTM training keeps for the backward pass.

    That is gates, inputs, outputs, and cells, which are always in float32.
    """
    kept = 4 * lstm.cell_dim + 3 * lstm.projection_dim
    per_position = kept * BYTES[shape.precision] + 4 * lstm.cell_dim
    rows = -(-shape.rows // shape.accumulate)
    layers = (
        1 if shape.freeze == "body" else lstm.num_layers
    )  # without a backward pass, one at a time
    return rows * shape.steps * lstm.num_directions * layers * per_position
