#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Kernels that the modules cannot serve: what does DKMS say, and what stays?
# For each a copy of the headers of a kernel that they could serve.
#
#   refusals.sh KERNEL VERSION      sources in /shared/VERSION
set -eu
. /shared/functions.sh
kernel=$1 version=$2

make -C "/shared/$version" dkms-sources
dkms add "cpuidle-lab/$version"

# refuse NAME RELEASE ARCHITECTURE [OPTION-THAT-IT-LACKS]
refuse() {
	headers=/usr/src/headers-of-$1
	cp -R "/usr/src/linux-headers-$kernel" "$headers"
	for file in "$headers/.config" "$headers/include/config/auto.conf"; do
		[ -z "${4:-}" ] || [ ! -e "$file" ] || sed -i "/^$4=/d" "$file"
	done
	mkdir -p "/lib/modules/$2"
	ln -sfn "$headers" "/lib/modules/$2/build"
	status=0
	dkms build "cpuidle-lab/$version" -k "$2" -a "$3" >/tmp/said 2>&1 || status=$?
	sort -u /tmp/said | sed "s/^/$1.said: /"
	echo "$1.status: $status"
	echo "$1.built: $(dkms status "cpuidle-lab/$version" -k "$2" | grep -c built)"
}

refuse old 5.10.0-30-amd64 x86_64
refuse architecture "$kernel" i686
for option in CPU_IDLE NO_HZ_COMMON KPROBES KALLSYMS_ALL TRACEPOINTS CGROUPS RT_MUTEXES POWERCAP; do
	refuse "$option" 6.12.1-own x86_64 "CONFIG_$option"
done

# Another kernel, which it can serve, is built for all the same.
dkms autoinstall -k "$kernel" || echo "autoinstall failed"
tell afterwards
