# SPDX-License-Identifier: GPL-2.0
# Sourced by scripts that work in a Debian that exists only as long as they
# run. They have mount and PID namespaces of their own.
# shellcheck shell=sh

# mount_root TARBALL MOUNT: unpacks a Debian in memory, with the devices and
# the /proc that programs need. What is mounted here is seen only here, and
# gone with the last process.
mount_root() {
	mount --make-rprivate /
	mount -t tmpfs -o mode=755 tmpfs "$2"
	zstd -dcq "$1" | tar -C "$2" --exclude=./dev -xf -
	mkdir -p "$2/dev" "$2/proc"
	mount -t tmpfs -o mode=755 tmpfs "$2/dev"
	for device in null zero full random urandom; do
		: >"$2/dev/$device"
		mount --bind "/dev/$device" "$2/dev/$device"
	done
	ln -s /proc/self/fd "$2/dev/fd"
	mount -t proc proc "$2/proc"
}
