"""The paper's analyses of a task: which layers, which place, how much data (sections 5.1 to 5.4).

Each study fits the same model in several variants, on the same data and cached layers:

    layers   no ELMo, layer 0, the top layer, mixes with strong and weak regularisation   (Table 2)
    place    ELMo at the input, the output, or both                                       (Table 3)
    samples  0.1%, 1%, 10% and all of the training data, without and with ELMo            (Figure 1)

What a mix has learned (Figure 2) is shown for every variant that has one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from elmox.errors import ElmoxError, NothingToLearn
from elmox.tasks.fit.results import Results
from elmox.tasks.fit.session import TaskSession
from elmox.tasks.model import read_model
from elmox.tasks.recipe import NO_ELMO, TaskRecipe, by_name, changed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Study: TypeAlias = Literal["layers", "place", "samples"]

SHARES = (0.001, 0.01, 0.1, 1.0)
WITHOUT, WITH = "without ELMo", "with ELMo"
LEFT_OUT = (f"elmo.model={NO_ELMO}", "elmo.finetune=false")  # what changes without ELMo


@dataclass(frozen=True)
class Variant:
    """One row of a study.

    Attributes:
        name: as the table calls it.
        changes: what differs from the recipe, as `--set` would say it.
        share: of the training data.
    """

    name: str
    changes: tuple[str, ...] = ()
    share: float = 1.0


def _shares() -> list[Variant]:
    kinds = {WITHOUT: LEFT_OUT, WITH: ()}
    return [
        Variant(f"{share:.4g}, {kind}", changes, share)
        for share in SHARES
        for kind, changes in kinds.items()
    ]


STUDIES: dict[Study, list[Variant]] = {
    "layers": [
        Variant("no ELMo", LEFT_OUT),
        Variant("layer 0", ("elmo.layers=0",)),
        Variant("top layer", ("elmo.layers=top",)),
        Variant("mix, lambda 1", ("elmo.layers=mix", "elmo.penalty=1")),
        Variant("mix, lambda 0.001", ("elmo.layers=mix", "elmo.penalty=0.001")),
    ],
    "place": [Variant(name, (f"elmo.place={name}",)) for name in ("input", "output", "both")],
    "samples": _shares(),
}


@dataclass(frozen=True)
class LearnedMix:
    """What a variant's mixes came to, averaged over seeds.

    Attributes:
        weights: s_j, which sum to 1, layer by layer.
        gamma: the factor.
    """

    weights: tuple[float, ...]
    gamma: float


@dataclass(frozen=True)
class Row:
    """A variant and what it came to.

    Attributes:
        variant: which.
        results: of its fits.
        mixes: by place, where there is anything to mix.
        examples: of the training file that were learned from; None in tables of before they were
            counted.
    """

    variant: Variant
    results: Results
    mixes: dict[str, LearnedMix]
    examples: int | None = None


@dataclass(frozen=True)
class Ablation:
    """A whole study."""

    study: Study
    task: str
    metric: str
    num_seeds: int
    about: dict[str, str]  # which command, model and files
    rows: list[Row]

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)

    def to_markdown(self) -> str:
        """For people."""
        parts = list(self.rows[0].results.mean)
        several = self.num_seeds > 1
        what = f"mean and deviation over {self.num_seeds} seeds" if several else "of one seed"
        counted = all(row.examples is not None for row in self.rows)
        columns = [*(["examples"] if counted else []), *parts, "minutes a fit"]
        lines = [
            f"# {self.task}: {self.study}",
            "",
            *(f"- {name}: {value}" for name, value in self.about.items()),
            f"- {self.metric}, in percent, {what}",
            "",
            f"| | {' | '.join(columns)} |",
            "|---|" + "---|" * len(columns),
        ]
        for row in self.rows:
            found = row.results
            around = [f" ± {found.deviation[part]:.2f}" if several else "" for part in parts]
            cells = [f"{found.mean[p]:.2f}{own}" for p, own in zip(parts, around, strict=True)]
            if counted:
                cells.insert(0, f"{row.examples:,}")
            minutes = sum(own.seconds for own in found.seeds) / len(found.seeds) / 60
            lines.append(f"| {row.variant.name} | {' | '.join(cells)} | {minutes:.1f} |")
        lines += self._mixes_in_markdown()
        return "\n".join(lines) + "\n"

    def picture(self) -> "Figure":
        """Scores as bars; for `samples`, as curves over the share of the data."""
        from elmox import plots

        title = f"{self.task}, dev {self.metric}"
        if self.study != "samples":
            values = [row.results.mean["dev"] for row in self.rows]
            spread = [row.results.deviation["dev"] for row in self.rows]
            ends = [(v - d, v + d) for v, d in zip(values, spread, strict=True)]
            labels = [row.variant.name for row in self.rows]
            return plots.bars(title, self.metric, labels, values, ends)
        curves = {
            kind: [
                (row.variant.share, row.results.mean["dev"], row.results.deviation["dev"])
                for row in self.rows
                if row.variant.name.endswith(kind)
            ]
            for kind in (WITHOUT, WITH)
        }
        return plots.curves(title, "share of the training data", self.metric, curves)

    def picture_of_mixes(self) -> "Figure | None":
        """The learned weights, a row for each variant and place; None where there are none."""
        from elmox import plots

        learned = self._learned()
        if not learned:
            return None
        names, mixes = zip(*learned, strict=True)
        layers = [f"layer {number}" for number in range(len(mixes[0].weights))]
        return plots.heatmap(
            f"{self.task}: weights of the mix", names, layers, [mix.weights for mix in mixes]
        )

    def _learned(self) -> list[tuple[str, LearnedMix]]:
        return [
            (f"{row.variant.name}, {place}", mix)
            for row in self.rows
            for place, mix in row.mixes.items()
        ]

    def _mixes_in_markdown(self) -> list[str]:
        learned = self._learned()
        if not learned:
            return []
        layers = [f"layer {number}" for number in range(len(learned[0][1].weights))]
        lines = ["", f"| learned mix | {' | '.join(layers)} | gamma |"]
        lines.append("|---|" + "---|" * (len(layers) + 1))
        for name, mix in learned:
            cells = [f"{weight:.2f}" for weight in mix.weights]
            lines.append(f"| {name} | {' | '.join(cells)} | {mix.gamma:.2f} |")
        return lines


def ablate(
    session: TaskSession,
    recipe: TaskRecipe,
    study: Study,
    out: Path,
    *,
    num_seeds: int = 1,
    about: dict[str, str],
    log: Callable[[str], None] = lambda message: None,
) -> Ablation:
    """Fit every variant of a study.

    Of little data, several shares may be the same few examples: they are fitted once, as the
    smallest of these shares, or as all of the data, which is never left out. Shares of which
    nothing can be learned have no row either. It is said which ones are left out.

    Args:
        session: the task's files.
        recipe: what all variants have in common.
        study: which.
        out: a directory, with one for each variant in it; finished fits are not done again, be they
            of another study of the same recipe.
        num_seeds: fits of each variant.
        about: what the report says about where it came from.
        log: told how it goes, a line at a time.
    """
    rows = []
    for variant in _distinct(session, study, log):
        log(f"{variant.name}:")
        try:
            results = fit_variant(session, recipe, variant, out, num_seeds=num_seeds)
        except NothingToLearn as error:
            if variant.share == 1:
                raise
            log(f"{variant.name} is left out: {error}")
            continue
        examples = session.num_examples(variant.share)
        rows.append(Row(variant, results, _mixes(results), examples))
    metric = session.task.metric
    return Ablation(study, session.task.name, metric, num_seeds, about, rows)


def _distinct(session: TaskSession, study: Study, log: Callable[[str], None]) -> list[Variant]:
    """The variants of a study without those that would be fits of the same examples again."""
    whole = session.num_examples()
    shares = sorted({variant.share for variant in STUDIES[study]}, reverse=True)
    kept = {session.num_examples(share): share for share in shares} | {whole: 1.0}
    found = []
    for variant in STUDIES[study]:
        number = session.num_examples(variant.share)
        if kept[number] == variant.share:
            found.append(variant)
        else:
            log(
                f"{variant.name} is left out: {number:,} of {whole:,} training examples, the same "
                f"as for a share of {kept[number]:.4g}"
            )
    return found


def fit_variant(
    session: TaskSession, recipe: TaskRecipe, variant: Variant, out: Path, *, num_seeds: int
) -> Results:
    """Fit one variant of a study; several processes may each fit one of the same study.

    Args:
        session, recipe, out, num_seeds: as in `ablate`.
        variant: which.
    """
    if not recipe.elmo.is_used:
        raise ElmoxError("a study compares ELMo in several ways: give a model, not none")
    own, folder = changed(recipe, variant.changes), variant_folder(recipe, variant, out)
    return session.fit(own, folder, num_seeds=num_seeds, share=variant.share)


def variant_folder(recipe: TaskRecipe, variant: Variant, out: Path) -> Path:
    """Where a variant's fits lie.

    Named by what differs from the recipe: what is the same in several studies is fitted once.
    """
    own, base = (by_name(one.to_dict()) for one in (changed(recipe, variant.changes), recipe))
    names = [f"{name}={value}" for name, value in own.items() if value != base[name]]
    names += [f"share={variant.share:g}"] if variant.share < 1 else []
    return out / ("-".join(names) or "recipe")


def _mixes(results: Results) -> dict[str, LearnedMix]:
    """The mixes of fitted models by place, averaged over seeds."""
    found: dict[str, list[LearnedMix]] = {}
    for own in results.seeds:
        embedder = read_model(Path(own.model)).embedder
        if embedder.mix is None or embedder.mix.weights is None:
            continue
        for place, mix in zip(embedder.places, embedder.mix.mixes(), strict=True):
            found.setdefault(place, []).append(LearnedMix(_softmax(mix.weights), mix.gamma))
    return {place: _mean(mixes) for place, mixes in found.items()}


def _mean(mixes: Sequence[LearnedMix]) -> LearnedMix:
    columns = zip(*(mix.weights for mix in mixes), strict=True)
    weights = tuple(sum(column) / len(mixes) for column in columns)
    return LearnedMix(weights, sum(mix.gamma for mix in mixes) / len(mixes))


def _softmax(weights: Sequence[float]) -> tuple[float, ...]:
    powers = [math.exp(weight - max(weights)) for weight in weights]
    return tuple(power / sum(powers) for power in powers)
