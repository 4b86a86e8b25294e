# SPDX-License-Identifier: GPL-2.0
"""One module per subcommand; cli.py finds them here.

Each module has NAME (str), HELP (one line), EPILOG (examples), add_arguments(parser) and
run(args) -> exit code; packages(args) where fewer Python packages than all of
tools/requirements.txt are enough. A module imports only Python's own library when it is loaded,
so that help and usage errors need no environment.
"""
