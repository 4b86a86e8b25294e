#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The Debian packages: install, upgrade the kernel, upgrade the packages,
# remove, purge.
#
#   deb-round.sh KERNEL VERSION NEWER      packages in /shared/VERSION, /shared/NEWER
set -eu
. /shared/functions.sh
stand_in
kernel=$1 version=$2 newer=$3

# The plugin's package needs KernelShark, which the root does not have.
install_ours() {
	install_packages "/shared/$1"/cpuidle-lab_*.deb "/shared/$1"/cpuidle-lab-dkms_*.deb
}

install_ours "$version"
tell installed
echo "latnice: $(latnice --version)"
echo "tools: $(cpuidle-lab --version)"
echo "commands: $(cpuidle-lab --help | grep -c '^  [a-z]')"
cpuidle-lab doctor --kernel "$kernel" --json >/shared/doctor.json || true
echo "doctor: $(cpuidle-lab doctor --kernel "$kernel" | tail -n 1)"
echo "unit: $(ls /etc/systemd/system/*/cpuidle-lab.service 2>/dev/null || echo off)"

upgrade_kernel
tell kernel_upgraded

install_ours "$newer"
tell upgraded
echo "sources: $(echo /usr/src/cpuidle-lab-*)"

# As systemctl enable does.
wanted=/etc/systemd/system
mkdir -p $wanted/multi-user.target.wants $wanted/timers.target.wants
ln -s /lib/systemd/system/cpuidle-lab.service $wanted/multi-user.target.wants
ln -s /lib/systemd/system/cpuidle-lab-sample.timer $wanted/timers.target.wants
apt-get -q -y remove cpuidle-lab cpuidle-lab-dkms
rmdir --ignore-fail-on-non-empty $wanted/*.target.wants
tell removed
snapshot removed
apt-get -q -y purge cpuidle-lab cpuidle-lab-dkms
snapshot after
