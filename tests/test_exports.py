"""The names that `elmox` exports."""

import ast
import subprocess
import sys
from pathlib import Path

import elmox
from elmox import errors


def test_every_name_can_be_imported() -> None:
    for name in elmox.__all__:
        assert getattr(elmox, name) is not None
    assert dir(elmox) == sorted(elmox.__all__)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(elmox.__file__).read_text())
    imported = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported.keys() | {"__version__"} == set(elmox.__all__)
    for name, module in imported.items():
        assert getattr(elmox, name) is getattr(sys.modules[str(module)], name)


def test_all_errors_are_public() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    kinds = {kind.__name__ for kind in classes if issubclass(kind, errors.ElmoxError)}
    assert kinds <= set(elmox.__all__)


def test_unknown_names_are_attribute_errors() -> None:
    assert not hasattr(elmox, "ScalarMix")


def test_importing_elmox_does_not_import_torch() -> None:
    script = "import sys, elmox; elmox.ElmoxError; elmox.ElmoConfig; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
