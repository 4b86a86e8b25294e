#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Builds the modules in several ways, in a Debian that exists only as long as
# this script runs (tools/cpuidle_lab/lab/root.sh).
#
#   build.sh TARBALL EXTRA SOURCES KDIR TARGET
#
# TARBALL  the Debian, with compilers and headers
# EXTRA    directory whose usr/ is copied over its own
# SOURCES  the tree with Kbuild
# KDIR     what to build against, a path in that Debian
# TARGET   directory with mount/ to work in, and ways, one a line: its name and
#          make's arguments; receives NAME.log, NAME.status and, in NAME/, the
#          modules
set -eu

tarball=$1 extra=$2 sources=$3 kdir=$4 target=$5

root=$target/mount
. "$(dirname "$0")/../../../tools/cpuidle_lab/lab/root.sh"
mount_root "$tarball" "$root"
cp -R "$extra/usr/." "$root/usr/"

export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C TMPDIR=/tmp
while read -r name arguments; do
	cp -R "$sources" "$root/tmp/$name"
	status=0
	# shellcheck disable=SC2086 # make's arguments are words
	chroot "$root" make -C "$kdir" "M=/tmp/$name" -j2 $arguments modules \
		>"$target/$name.log" 2>&1 </dev/null || status=$?
	echo "$status" >"$target/$name.status"
	mkdir "$target/$name"
	cp "$root/tmp/$name/"*.ko "$target/$name/" 2>/dev/null || true
done <"$target/ways"
