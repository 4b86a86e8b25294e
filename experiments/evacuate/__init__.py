# SPDX-License-Identifier: GPL-2.0
"""The table of the patch "Saving power by cpu evacuation" (2009), made again in the lab."""
