"""Links that leave `docs/`: to tables that become pages of the site, and to files that do not.

On GitHub a page links to `../benchmarks/results/embed.md`. The site has that page, too. Links to
code and folders become the path in the repository, because the site does not contain them.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = ("benchmarks/*.md", "benchmarks/results/*.md", "CHANGELOG.md", "CONTRIBUTING.md")
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages outside `docs/`, under their path in the repository."""
    for path in (path for pattern in PAGES for path in sorted(ROOT.glob(pattern))):
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, content=path.read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Point the links of a page at the site, or replace them by the path."""
    uri = page.file.src_uri
    outside = uri not in {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    folder = (ROOT if outside and (ROOT / uri).exists() else DOCS) / uri
    here = Path(uri).parent

    def rewrite(match: re.Match[str]) -> str:
        target = (folder.parent / match["path"]).resolve()
        if not target.exists():
            return match[0]  # mkdocs reports it, unless it is a generated page
        base = DOCS if target.is_relative_to(DOCS) else ROOT
        name = target.relative_to(base).as_posix()
        if files.get_file_from_path(name) is None:
            path = target.relative_to(ROOT).as_posix()
            text = match["text"].strip("`")
            return f"`{path}`" if text == path else f"{match['text']} (`{path}`)"
        up = "../" * len(here.parts)
        return f"[{match['text']}]({up}{name}{match['anchor'] or ''})"

    return LINK.sub(rewrite, markdown)
