#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Packages of Fedora and Arch, built from /shared/source and linted as far as
# Debian's tools can. Packages and findings go to /shared/made.
#
#   foreign-round.sh VERSION
set -eu

name=cpuidle-lab-$1
made=/shared/made
mkdir -p $made
cp -R /shared/source "/tmp/$name"
tar -C /tmp -czf "/tmp/$name.tar.gz" "$name"

# Macros of Fedora's systemd-rpm-macros, which Debian's rpm does not have.
mkdir -p /tmp/rpm/SOURCES
cp "/tmp/$name.tar.gz" /tmp/rpm/SOURCES
rpmbuild -bb --nodeps --define '_topdir /tmp/rpm' --define '_unitdir /usr/lib/systemd/system' \
	--define 'systemd_post() :' --define 'systemd_preun() :' \
	"/tmp/$name/packaging/fedora/cpuidle-lab.spec"
cp /tmp/rpm/RPMS/*/*.rpm $made
rpmlint -c "/tmp/$name/packaging/fedora/rpmlint.toml" \
	"/tmp/$name/packaging/fedora/cpuidle-lab.spec" $made/*.rpm >$made/rpmlint.txt 2>&1 || true
for each in $made/*.rpm; do
	rpm -qlp "$each" 2>/dev/null | sed 's/^/rpm: /'
done

# makepkg refuses to run as root.
useradd --create-home builder
mkdir /tmp/arch
cp "/tmp/$name/packaging/arch/PKGBUILD" "/tmp/$name.tar.gz" /tmp/arch
chown -R builder /tmp/arch
su builder -c 'cd /tmp/arch && CARCH=x86_64 PKGEXT=.pkg.tar.zst makepkg --nodeps --skipinteg'
cp /tmp/arch/*.pkg.tar.zst $made
for each in $made/*.pkg.tar.zst; do
	tar -tf "$each" | sed 's/^/arch: \//'
done
