"""Builds the API reference from the docstrings: python docs/build_api.py [FOLDER]."""

import pkgutil
import sys
from pathlib import Path

import pdoc

import clbr


def main(folder: str = "site") -> None:
    """Write one page for the public names and one for each module."""
    for name in clbr.__all__:  # pdoc reads the module's attributes; lazy names are none yet
        setattr(clbr, name, getattr(clbr, name))
    modules = [module.name for module in pkgutil.iter_modules(clbr.__path__, "clbr.")]  # pdoc adds their submodules
    pdoc.pdoc("clbr", *modules, output_directory=Path(folder))
    print(f"open {folder}/index.html")


if __name__ == "__main__":
    main(*sys.argv[1:])
