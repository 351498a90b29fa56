"""The machine and the versions of a measurement."""

import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from elmox import __version__


def machine_facts(device: torch.device) -> dict[str, Any]:
    """Return hardware, versions and threads."""
    facts: dict[str, Any] = {
        "device": str(device),
        "cpu": cpu_name(),
        "threads": torch.get_num_threads(),
        "elmox": __version__,
        "torch": torch.__version__,
        "triton": _version("triton"),
        "python": platform.python_version(),
    }
    if device.type == "cuda":
        facts["gpu"] = torch.cuda.get_device_name(device)
        facts["cuda"] = torch.version.cuda
        facts["cudnn"] = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    return facts


def machine_line(facts: dict[str, Any]) -> str:
    """Return the facts as one line."""
    names = [facts["gpu"]] if "gpu" in facts else []
    names += [f"{facts['cpu']}, {facts['threads']} threads"]
    for name in ("elmox", "torch", "triton", "cuda", "cudnn", "python"):
        if facts.get(name):
            names.append(f"{name} {facts[name]}")
    return ", ".join(names)


def cpu_name() -> str:
    """Return the processor's name."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
