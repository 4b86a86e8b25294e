# SPDX-License-Identifier: GPL-2.0
"""Entry point of `python -m cpuidle_lab`."""

import sys

from cpuidle_lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
