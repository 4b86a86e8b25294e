# SPDX-License-Identifier: GPL-2.0
"""One module per subcommand, as in cpuidle_lab/commands/."""
