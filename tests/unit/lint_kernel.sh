#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Looks at the modules' sources with a kernel's own tools, in a Debian that
# exists only as long as this script runs (tools/cpuidle_lab/lab/root.sh).
#
#   lint_kernel.sh TARBALL SOURCES KERNEL TARGET
#
# TARBALL  the Debian, with a compiler and the headers of KERNEL
# SOURCES  the tree with Kbuild
# KERNEL   release string of the kernel whose headers are used
# TARGET   directory with mount/ to work in; receives log, with the output of
#          sparse, of the compiler with W=1, and of kernel-doc
set -eu

tarball=$1 sources=$2 kernel=$3 target=$4

root=$target/mount
. "$(dirname "$0")/../../tools/cpuidle_lab/lab/root.sh"
mount_root "$tarball" "$root"
cp "$(command -v sparse)" "$root/usr/local/bin/"
cp -R "$sources" "$root/tmp/tree"

export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C TMPDIR=/tmp
exec >"$target/log" 2>&1 </dev/null
# W=1 has kbuild run kernel-doc over each C file; headers are left to do.
chroot "$root" make -C "/usr/src/linux-headers-$kernel" M=/tmp/tree -j2 W=1 C=1 modules
chroot "$root" find /tmp/tree -name '*.h' -exec \
	"/usr/src/linux-headers-$kernel/scripts/kernel-doc" -none {} +
