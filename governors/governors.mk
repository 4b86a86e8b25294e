# SPDX-License-Identifier: GPL-2.0
# The governors that are built, for kbuild and the userspace builds alike.
# Keep list.h in step.
CIL_GOVERNORS := teo_ng menu_ng wteo
