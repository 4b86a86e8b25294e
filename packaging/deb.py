#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Build the Debian packages in clean roots; leave them in build/deb."""

import sys

from roots import TOP, UserError, build_debs, export, scratch

TARGET = TOP / "build" / "deb"


def main() -> int:
    """Build, and print what was built and what lintian found."""
    try:
        with scratch() as folder:
            export(folder / "source")
            build_debs(folder / "source", TARGET)
    except UserError as error:
        print(f"deb: error: {error.message}", file=sys.stderr)
        return error.exit_code
    print((TARGET / "lintian.txt").read_text(), end="")
    for package in sorted(TARGET.glob("*.deb")):
        print(package.relative_to(TOP))
    return 0


if __name__ == "__main__":
    sys.exit(main())
