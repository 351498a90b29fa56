"""`elmox package`: a model as a package that pip installs."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from elmox.cli.options import Force, PrintOptions, WeightType
from elmox.cli.verb import verb
from elmox.errors import ElmoxError


@verb(
    "elmox package trained-model --name welsh-small --license CC-BY-4.0",
    "elmox package trained-model --name welsh-small --out dist-models --wheel",
)
def command(
    model: Annotated[Path, typer.Argument(help="A model directory, which is packaged as it is.")],
    name: Annotated[
        str | None, "Name of the model, for Elmo.from_pretrained; by default that of its directory."
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Directory of all packages.")
    ] = Path("packages"),
    version: Annotated[str, "Version of the package."] = "1.0.0",
    license: Annotated[
        str | None, "SPDX identifier; by default the license in the model's card."
    ] = None,
    license_file: Annotated[Path | None, "Text of the license."] = None,
    no_softmax: Annotated[bool, "Do not write the package of the softmax."] = False,
    tagger: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=DIR",
            help="Include a fitted task model, which must read this model. May be repeated.",
        ),
    ] = None,
    tagger_dtype: Annotated[
        WeightType, "Number format of the taggers' weights."
    ] = WeightType.float16,
    taggers_apart: Annotated[bool, "Write the taggers as a package of their own."] = False,
    wheel: Annotated[bool, "Build the wheels too, in dist/."] = False,
    force: Force = False,
    *,
    show: PrintOptions,
) -> None:
    """Write a model as a package that pip installs, and its softmax as a second one.

    DIR/NAME is the project of the distribution elmox-NAME, DIR/NAME-softmax that of
    elmox-NAME-softmax, DIR/NAME-taggers that of elmox-NAME-taggers. After pip install, the name
    alone finds the model, without a network.
    """
    from elmox.pretrained.project import ProjectOptions, build_wheel, write_projects
    from elmox.serve.config import parse_named_paths
    from elmox.tasks.ready import ready_to_package

    if license_file is not None and not license_file.is_file():
        raise ElmoxError(f"--license-file {license_file}: there is no such file")
    paths = {key: Path(path) for key, path in parse_named_paths(tagger or [], "tagger").items()}
    with TemporaryDirectory() as scratch:
        taggers = ready_to_package(
            model, paths, Path(scratch), name or model.resolve().name, tagger_dtype.value
        )
        options = ProjectOptions(
            name=name,
            version=version,
            license=license,
            license_file=license_file,
            softmax=not no_softmax,
            taggers=taggers,
            taggers_apart=taggers_apart,
            force=force,
        )
        projects = write_projects(model, out, options)
    wheels = [build_wheel(project, project / "dist") for project in projects] if wheel else []
    values = {
        "projects": [str(path) for path in projects],
        "wheels": [str(path) for path in wheels],
    }
    show.result(values, values["projects"] + values["wheels"])
    for path in wheels:
        show.log(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")
    show.log(f"install it with: pip install {' '.join(map(str, projects))}")
