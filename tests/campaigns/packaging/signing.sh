#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Modules that were built before DKMS could make a key get their signature by
# the commands of docs/hardware.md.
#
#   signing.sh KERNEL VERSION      sources in /shared/VERSION
set -eu
. /shared/functions.sh
kernel=$1 version=$2
signer() {
	echo "$1: $(modinfo -F signer "/lib/modules/$kernel"/updates/dkms/cpuidle_lab.ko*)"
}

make -C "/shared/$version" dkms-sources
openssl=$(command -v openssl)
mv "$openssl" /tmp/openssl
dkms install "cpuidle-lab/$version" -k "$kernel"
signer without_openssl

mv /tmp/openssl "$openssl"
dkms build --force "cpuidle-lab/$version" -k "$kernel"
dkms install --force "cpuidle-lab/$version" -k "$kernel"
signer as_documented
[ -s /var/lib/dkms/mok.pub ] && echo "certificate: there"
