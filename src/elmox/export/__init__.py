"""ELMo outside PyTorch: export to ONNX, and run the export with onnxruntime alone.

    from elmox.export import OnnxElmo, export_onnx

    export_onnx(Elmo.from_pretrained(), "elmo-onnx")               # needs torch and onnx
    OnnxElmo.from_pretrained("elmo-onnx").encode(["A sentence."])  # needs NumPy and onnxruntime

Names are loaded when they are first used, so that `OnnxElmo` never imports torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmox.errors import ElmoxError, install_hint

if TYPE_CHECKING:
    from elmox.export.export import ExportReport, export_onnx
    from elmox.export.runtime import OnnxElmo

_MODULES = {
    "ExportReport": "elmox.export.export",
    "OnnxElmo": "elmox.export.runtime",
    "export_onnx": "elmox.export.export",
}

__all__ = ["ExportReport", "OnnxElmo", "export_onnx"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'elmox.export' has no attribute {name!r}")
    try:
        return getattr(import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise ElmoxError(
            "models are exported with the package onnx, which is not installed: "
            f"{install_hint('onnx')}"
        ) from error


def __dir__() -> list[str]:
    return sorted(__all__)
