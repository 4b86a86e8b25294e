#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The modules by DKMS, as docs/hardware.md has it: install, upgrade the kernel,
# upgrade the modules, remove.
#
#   dkms-round.sh KERNEL VERSION NEWER      sources in /shared/VERSION, /shared/NEWER
set -eu
. /shared/functions.sh
stand_in
kernel=$1 version=$2 newer=$3

make -C "/shared/$version" dkms-sources
dkms install "cpuidle-lab/$version" -k "$kernel"
tell installed

upgrade_kernel
tell kernel_upgraded

make -C "/shared/$newer" dkms-sources
for each in /lib/modules/*/build; do
	each=${each%/build}
	dkms install "cpuidle-lab/$newer" -k "${each##*/}"
done
tell upgraded
dkms remove "cpuidle-lab/$version" --all
rm -r "/usr/src/cpuidle-lab-$version"
tell old_removed

dkms remove "cpuidle-lab/$newer" --all
rm -r "/usr/src/cpuidle-lab-$newer"
tell removed
snapshot after
