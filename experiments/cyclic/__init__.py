# SPDX-License-Identifier: GPL-2.0
"""Wake-ups of clock_nanosleep under each idle governor, as a post of 2018 shows them."""
