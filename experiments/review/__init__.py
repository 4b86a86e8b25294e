# SPDX-License-Identifier: GPL-2.0
"""What `review` says of changes whose effect is known by now."""
