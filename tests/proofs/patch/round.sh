#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Findings of a Debian without network on the patched kernel in /shared/source: checkpatch,
# kernel-doc, the page in which the governor has a section, and the build for arm64.
#
#   round.sh GOVERNOR     its mails in /shared/series; findings go into files of /shared/said
set -u
file=drivers/cpuidle/governors/$1.c
mkdir /shared/said

# Python's processes share semaphores there.
mkdir -m 1777 /dev/shm

# tell NAME COMMAND...: the command's output, and in NAME.exit its status
tell() {
	name=$1
	shift
	"$@" >"/shared/said/$name" 2>&1
	echo $? >"/shared/said/$name.exit"
}

cd /shared/source || exit 1
tell checkpatch scripts/checkpatch.pl --strict --no-tree --terse --show-types \
	/shared/series/000[12]*.patch
tell kernel-doc scripts/kernel-doc -none -Wall "$file"
tell htmldocs make SPHINXDIRS=admin-guide/pm htmldocs

set -- ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- O=/tmp/arm64
mkdir /tmp/arm64
tell arm64-config make "$@" KCONFIG_ALLCONFIG=/shared/arm64.config allnoconfig
tell arm64 make -j2 "$@" W=1 drivers/cpuidle/governors/
cp /tmp/arm64/.config /shared/said/config
file -b /tmp/arm64/"${file%.c}.o" >/shared/said/object
