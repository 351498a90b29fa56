"""The paper's analyses of a task: which layers, which place, how much data (sections 5.1 to 5.4).

Each study fits the same model in several variants, on the same data and cached layers:

    layers   no ELMo, layer 0, the top layer, mixes with strong and weak regularization   (Table 2)
    place    ELMo at the input, the output, or both                                       (Table 3)
    samples  0.1%, 1%, 10% and all of the training data, without and with ELMo            (Figure 1)

The learned weights (Figure 2) are shown for every variant that has a mix.
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
LEFT_OUT = (f"elmo.model={NO_ELMO}", "elmo.finetune=false")  # the changes of a variant without ELMo


@dataclass(frozen=True)
class Variant:
    """One row of a study.

    Attributes:
        name: its label in the table.
        changes: settings that differ from the recipe, as `key=value`.
        share: share of the training data.
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
    """The learned mixes of a variant, averaged over seeds.

    Attributes:
        weights: s_j, which sum to 1, layer by layer.
        gamma: the factor.
    """

    weights: tuple[float, ...]
    gamma: float


@dataclass(frozen=True)
class Row:
    """A variant and its results.

    Attributes:
        variant: the variant.
        results: scores of its fits.
        mixes: by place; empty if there is nothing to mix.
        examples: number of training examples; None in older tables, which do not count them.
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
        """Return the study as plain values, for JSON."""
        return asdict(self)

    def to_markdown(self) -> str:
        """Return the study as a table."""
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
            results = row.results
            margins = [f" ± {results.deviation[part]:.2f}" if several else "" for part in parts]
            cells = [
                f"{results.mean[p]:.2f}{margin}" for p, margin in zip(parts, margins, strict=True)
            ]
            if counted:
                cells.insert(0, f"{row.examples:,}")
            minutes = sum(fit.seconds for fit in results.seeds) / len(results.seeds) / 60
            lines.append(f"| {row.variant.name} | {' | '.join(cells)} | {minutes:.1f} |")
        lines += self._mixes_in_markdown()
        return "\n".join(lines) + "\n"

    def picture(self) -> "Figure":
        """Draw the scores as bars; for `samples`, as curves over the share of the data."""
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
        """Draw the learned weights, one row per variant and place; None if there are none."""
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

    On small data sets, several shares may be the same examples. They are fitted once, as the
    smallest of these shares, or as all of the data, which is never skipped. Shares with nothing
    to learn from have no row either. `log` gets a line for each skipped share.

    Args:
        session: the task's files.
        recipe: the settings common to all variants.
        study: the study.
        out: a directory, with a folder per variant; finished fits are reused, also those of
            another study of the same recipe.
        num_seeds: fits per variant.
        about: the origin of the results, for the report.
        log: gets progress lines.
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
    """Return the variants of a study, without those that would repeat the same examples."""
    whole = session.num_examples()
    shares = sorted({variant.share for variant in STUDIES[study]}, reverse=True)
    kept = {session.num_examples(share): share for share in shares} | {whole: 1.0}
    variants = []
    for variant in STUDIES[study]:
        number = session.num_examples(variant.share)
        if kept[number] == variant.share:
            variants.append(variant)
        else:
            log(
                f"{variant.name} is left out: {number:,} of {whole:,} training examples, the same "
                f"as for a share of {kept[number]:.4g}"
            )
    return variants


def fit_variant(
    session: TaskSession, recipe: TaskRecipe, variant: Variant, out: Path, *, num_seeds: int
) -> Results:
    """Fit one variant of a study; several processes may each fit one of the same study.

    Args:
        session, recipe, out, num_seeds: as in `ablate`.
        variant: the variant to fit.
    """
    if not recipe.elmo.is_used:
        raise ElmoxError("a study compares ELMo in several ways: give a model, not none")
    variant_recipe, folder = changed(recipe, variant.changes), variant_folder(recipe, variant, out)
    return session.fit(variant_recipe, folder, num_seeds=num_seeds, share=variant.share)


def variant_folder(recipe: TaskRecipe, variant: Variant, out: Path) -> Path:
    """Return the folder of a variant's fits.

    It is named after the differences from the recipe, so that studies share equal variants.
    """
    settings, base = (by_name(one.to_dict()) for one in (changed(recipe, variant.changes), recipe))
    names = [f"{name}={value}" for name, value in settings.items() if value != base[name]]
    names += [f"share={variant.share:g}"] if variant.share < 1 else []
    return out / ("-".join(names) or "recipe")


def _mixes(results: Results) -> dict[str, LearnedMix]:
    """Return the mixes of fitted models by place, averaged over seeds."""
    by_place: dict[str, list[LearnedMix]] = {}
    for fit in results.seeds:
        embedder = read_model(Path(fit.model)).embedder
        if embedder.mix is None or embedder.mix.weights is None:
            continue
        for place, mix in zip(embedder.places, embedder.mix.mixes(), strict=True):
            by_place.setdefault(place, []).append(LearnedMix(_softmax(mix.weights), mix.gamma))
    return {place: _mean(mixes) for place, mixes in by_place.items()}


def _mean(mixes: Sequence[LearnedMix]) -> LearnedMix:
    columns = zip(*(mix.weights for mix in mixes), strict=True)
    weights = tuple(sum(column) / len(mixes) for column in columns)
    return LearnedMix(weights, sum(mix.gamma for mix in mixes) / len(mixes))


def _softmax(weights: Sequence[float]) -> tuple[float, ...]:
    powers = [math.exp(weight - max(weights)) for weight in weights]
    return tuple(power / sum(powers) for power in powers)
