#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Runs a script in a Debian that exists only as long as the script runs, and
# that has no network (tools/cpuidle_lab/lab/root.sh).
#
#   in-root.sh TARBALL MOUNT SHARED SCRIPT [ARGUMENT...]
#
# TARBALL  the Debian
# MOUNT    an empty directory to mount it on
# SHARED   a directory that it sees as /shared
# SCRIPT   what to run there, below SHARED
set -eu

tarball=$1 root=$2 shared=$3 script=$4
shift 4

. "$(dirname "$0")/../tools/cpuidle_lab/lab/root.sh"
mount_root "$tarball" "$root"
mkdir "$root/shared"
mount --bind "$shared" "$root/shared"

# The images do without documents, but packages are to be seen whole.
sed -i '/usr\/share/d' "$root"/etc/dpkg/dpkg.cfg.d/* 2>/dev/null || true

exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TMPDIR=/tmp \
	DEBIAN_FRONTEND=noninteractive chroot "$root" sh "/shared/$script" "$@"
