"""What all benchmark scripts share: the machine's name, a text to run on, where results go."""

import lzma
import platform
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).resolve().parent / "results"
WIKI = ROOT.parent / "shared" / "corpora" / "english-wiki" / "valid.txt.xz"


def cpu_name() -> str:
    """The processor, as the system names it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def running_english(path: Path | None = None) -> str:
    """Return running English: a file, Wikipedia if available, or Python's documentation."""
    path = path or (WIKI if WIKI.exists() else None)
    if path is None:
        from pydoc_data.topics import topics

        return "\n".join(topics.values())
    if path.suffix == ".xz":
        return lzma.open(path, "rt", encoding="utf-8").read()
    return path.read_text(encoding="utf-8")
