# SPDX-License-Identifier: GPL-2.0
"""One module per subcommand; cli.py finds them here.

Each module has NAME (str), HELP (one line), EPILOG (examples),
add_arguments(parser) and run(args) -> exit code.
"""
