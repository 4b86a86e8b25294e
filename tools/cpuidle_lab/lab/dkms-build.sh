#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Builds and installs the modules by DKMS in a Debian that exists only as long
# as this script runs (root.sh).
#
#   dkms-build.sh TARBALL SOURCES KERNEL TARGET
#
# TARBALL  the Debian, with dkms and the headers of KERNEL
# SOURCES  the tree with dkms.conf
# KERNEL   release string of the kernel to build for
# TARGET   directory with mount/ to work in, and root/ that receives
#          usr/lib/modules/KERNEL/updates
set -eu

tarball=$1 sources=$2 kernel=$3 target=$4
field() { sed -n "s/^$1=\"\{0,1\}\([^\"]*\)\"\{0,1\}\$/\1/p" "$sources/dkms.conf"; }
name=$(field PACKAGE_NAME)
version=$(field PACKAGE_VERSION)

root=$target/mount
here=$(dirname "$0")
. "$here/root.sh"
mount_root "$tarball" "$root"

cp -R "$sources" "$root/usr/src/$name-$version"
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C TMPDIR=/tmp
if ! chroot "$root" dkms install "$name/$version" -k "$kernel"; then
	cat "$root/var/lib/dkms/$name/$version/build/make.log" || true
	echo "dkms install failed"
	exit 1
fi
cat "$root/var/lib/dkms/$name/$version/$kernel"/*/log/make.log

mkdir -p "$target/root/usr/lib/modules/$kernel"
cp -R "$root/lib/modules/$kernel/updates" "$target/root/usr/lib/modules/$kernel/"
