# SPDX-License-Identifier: GPL-2.0
# Functions of all rounds in a clean root: . /shared/functions.sh
# shellcheck shell=sh

# snapshot FILE: every file, with its hash, every link, every directory. Left out
# is what any installation of any package changes, and the key that DKMS makes
# for this machine with the first module that it builds. Of dpkg's lists of files
# only the names are kept, since it writes them anew in another order.
snapshot() {
	find / -xdev \( -path /proc -o -path /dev -o -path /sys -o -path /shared \
		-o -path /tmp -o -path /run -o -path /var/log -o -path /var/cache \
		-o -path /var/lib/apt -o -path '/var/lib/dpkg/status*' \
		-o -path '/var/lib/dpkg/available*' -o -path '/var/lib/dpkg/diversions*' \
		-o -path '/var/lib/dpkg/statoverride*' -o -path /var/lib/dpkg/triggers \
		-o -path '/var/lib/dkms/mok.*' -o -path '/boot/initrd.img*' \
		-o -path /var/lib/initramfs-tools -o -path '/etc/ld.so.cache' \) -prune -o \
		-path '/var/lib/dpkg/info/*.list' -printf '%y %p\n' -o \
		\( -type f -exec sha256sum {} + \) -o \( -type l -printf 'link %p %l\n' \) \
		-o -printf '%y %p\n' | sort -k 2 >"/shared/$1"
}

# stand_in: the images do without the modules of the kernel, or without the kernel
# altogether. One stands in for all, so that depmod has something to list.
stand_in() {
	for each in /lib/modules/*; do
		mkdir -p "$each/kernel"
		as -o "$each/kernel/stand-in.ko" /dev/null
		depmod "${each##*/}"
	done
}

# upgrade_kernel: the headers of the new kernel, and all that they bring.
upgrade_kernel() {
	install_packages /shared/upgrade/*.deb
	stand_in
}

install_packages() {
	apt-get -q -y --no-install-recommends install "$@"
}

# tell NAME: what DKMS and the kernels' directories have now.
tell() {
	dkms status | sort | sed "s/^/$1.status: /"
	for each in /lib/modules/*; do
		for file in "$each"/updates/dkms/cpuidle_*.ko*; do
			[ ! -e "$file" ] ||
				echo "$1.module: ${each##*/} ${file##*/} $(modinfo -F version "$file")"
		done
	done
}
