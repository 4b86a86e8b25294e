#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The upgrade of the kernel without us, to compare with.
set -eu
. /shared/functions.sh
stand_in

upgrade_kernel
snapshot control
