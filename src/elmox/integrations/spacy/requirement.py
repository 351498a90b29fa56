"""The requirement that a packaged pipeline has: this package, in a version that can read it."""

from spacy.language import Language
from spacy.util import get_minor_version_range

from elmox import __version__


def add_requirement(nlp: Language) -> None:
    """Write elmox into the pipeline's meta, from where `spacy package` takes it."""
    requirements = nlp.meta.setdefault("requirements", [])
    if not any(requirement.startswith("elmox") for requirement in requirements):
        requirements.append(f"elmox{get_minor_version_range(__version__)}")
