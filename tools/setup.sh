#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Makes this machine (Debian 12 or 13) ready for the project.
#
#   tools/setup.sh             both of the following
#   tools/setup.sh packages    the Debian packages that are missing, by apt-get
#   tools/setup.sh bpf         those that governors in BPF need, which the first does not install
#   tools/setup.sh fuzz        those that libFuzzer needs, likewise
#   tools/setup.sh python      build/venv with the versions of tools/requirements.txt
#
# Says what it is about to install, and nothing when there is nothing to do.
set -eu

top=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd)
venv=$top/build/venv
wanted=$top/tools/requirements.txt
log=$top/build/setup.log

# package                   what it is for
packages="
python3-venv                build/venv
gcc                         userspace tests, native tools
libc6-dev                   the same
make                        the targets of the Makefile
pkg-config                  finds the tracing libraries
binutils                    objdump and nm in the tests of the built modules
kmod                        modinfo in the tests of the built modules
libtracecmd-dev             the trace reader
libtraceevent-dev           the same
libtracefs-dev              the same
trace-cmd                   reading traces by hand, comparison in the tests
g++                         the plugin for KernelShark, in the tests
libkshark-dev               the same
libjson-c-dev               the same
libgl-dev                   the same
libglu1-mesa-dev            the same
mmdebstrap                  the lab's images
debian-archive-keyring      signatures of what the images are made of
uidmap                      making them without being root
zstd                        the lab's images
xz-utils                    unpacks linux-source for the equality proof
valgrind                    instruction counts in the tests
bison                       kernels with checkers, for storms
flex                        the same
bc                          the same
libelf-dev                  the same
pahole                      the same: the kernels' types, for programs in BPF
sparse                      make lint: types and locks of the kernel code
shellcheck                  make lint: scripts
codespell                   make lint: spelling
mariadb-server-core         a database server for the tests of tune, started by them alone
"

# For cpuidle-lab bpf, lab --governor bpf:NAME and make bpf alone.
bpf_packages="
clang-19                    governors as programs in BPF
llvm-19                     the same
libbpf-dev                  their headers
"

# For make -C tests/campaigns/fuzz.
fuzz_packages="
clang-19                    compiles the fuzz targets
libclang-rt-19-dev          libFuzzer and the sanitizers
"

# Exits with one sentence.
die() {
	echo "cpuidle-lab: error: $*" >&2
	exit 1
}

# Runs a long command with its output in the log; shows the log's end where it fails.
logged() {
	if ! "$@" >"$log" 2>&1 </dev/null; then
		[ -z "${bar_of:-}" ] || {
			kill "$bar_of"
			printf '\r\033[K' >&2
		}
		tail -n 15 "$log" >&2
		die "'$*' failed; all of its output is in $log"
	fi
}

# Runs pip as logged() does; on a terminal, with a bar of the packages that it has.
counted() {
	count=$1
	shift
	[ -t 2 ] || {
		logged "$@"
		return
	}
	: >"$log"
	(
		while sleep 0.2; do
			have=$(grep -c '^Collecting ' "$log") || :
			bar=$(printf "%${have}s" '' | tr ' ' '#')
			stage=downloading
			! grep -q '^Installing ' "$log" || stage='installing '
			printf '\r  %s [%-*s] %d of %d' "$stage" "$count" "$bar" "$have" "$count" >&2
		done
	) &
	bar_of=$!
	trap 'kill $bar_of 2>/dev/null' EXIT
	trap 'exit 130' INT TERM
	logged "$@"
	kill $bar_of
	trap - EXIT INT TERM
	printf '\r\033[K' >&2
}

# Prints the packages of the table that are not installed.
missing_packages() {
	echo "$packages" | while read -r package _; do
		[ -n "$package" ] || continue
		state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || state=
		[ "$state" = installed ] || echo "$package"
	done
}

install_packages() {
	command -v apt-get >/dev/null || die "this needs a Debian system (apt-get was not found)"
	missing=$(missing_packages | tr '\n' ' ')
	missing=${missing% }
	[ -n "$missing" ] || return 0

	as_root=
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null ||
			die "run as root, or install sudo: apt-get install $missing"
		as_root=sudo
	fi
	echo "Installing Debian packages: $missing"
	# shellcheck disable=SC2086 # both lists are meant to be split
	logged $as_root apt-get -q -o DPkg::Lock::Timeout=120 update
	# shellcheck disable=SC2086
	logged $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
		-o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 \
		install --no-install-recommends $missing
}

# Prints a Python 3.11 or newer that can make virtual environments.
find_python() {
	for python in python3 /usr/bin/python3; do
		if "$python" -c 'import sys, venv, ensurepip
sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
			echo "$python"
			return
		fi
	done
	return 1
}

install_python() {
	cmp -s "$wanted" "$venv/.requirements.txt" && return
	python=$(find_python) || {
		install_packages
		python=$(find_python) || die "no Python 3.11 or newer was found"
	}
	count=$(grep -c '==' "$wanted")
	echo "Making the Python environment build/venv: $count packages, 140 MB to download," \
		"560 MB on disk, once"
	logged "$python" -m venv --clear "$venv"
	counted "$count" "$venv/bin/pip" install --disable-pip-version-check -r "$wanted"
	cp "$wanted" "$venv/.requirements.txt"
}

mkdir -p "$top/build"
exec 9>"$top/build/setup.lock"
flock 9 # two at once: the second waits and finds the work done

case ${1:-all} in
packages) install_packages ;;
bpf)
	packages=$bpf_packages
	install_packages
	;;
fuzz)
	packages=$fuzz_packages
	install_packages
	;;
python) install_python ;;
all)
	install_packages
	install_python
	;;
*) die "unknown part '$1'; give packages, bpf, fuzz, python or nothing" ;;
esac
