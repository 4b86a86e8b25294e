# SPDX-License-Identifier: GPL-2.0
"""The ground floor: errors, files, the cache, waiting. Nothing here knows of idle states."""
