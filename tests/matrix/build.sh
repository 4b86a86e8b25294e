#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Builds the modules in several ways, in a Debian that exists only as long as
# this script runs. Runs in mount and PID namespaces of its own.
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

# What is mounted here is seen only here, and gone with the last process.
root=$target/mount
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$root"
zstd -dcq "$tarball" | tar -C "$root" --exclude=./dev -xf -
cp -R "$extra/usr/." "$root/usr/"
mkdir -p "$root/dev" "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom; do
	: >"$root/dev/$device"
	mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mount -t proc proc "$root/proc"

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
