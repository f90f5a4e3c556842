"""`python -m clbr` is the command line, as `clbr` is; torchrun needs it."""

from clbr.cli import main

main()
