"""The corpus of the examples: the docstrings of Python's standard library."""

import ast
import pathlib
import sysconfig


def docstrings():
    """Yields a document for every documented function and class."""
    library = pathlib.Path(sysconfig.get_paths()["stdlib"])
    for file in sorted(library.glob("*.py")) + sorted(library.glob("[a-z]*/*.py")):
        if "packages" in str(file) or "test" in str(file):
            continue
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        seen = set()
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                text = ast.get_docstring(node)
                name = ".".join([*file.relative_to(library).with_suffix("").parts, node.name])
                if text and name not in seen:
                    seen.add(name)
                    yield {"id": name, "title": node.name, "text": text}
