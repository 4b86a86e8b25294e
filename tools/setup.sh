#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Makes this machine ready for the project: Debian 12 or 13, or one that has what it needs.
#
#   tools/setup.sh             both of the following
#   tools/setup.sh packages    the Debian packages that are missing, by apt-get
#   tools/setup.sh bpf         those that governors in BPF need, which the first does not install
#   tools/setup.sh fuzz        those that libFuzzer needs, likewise
#   tools/setup.sh arm64       those that run programs for arm64, likewise
#   tools/setup.sh python      build/venv with the versions of tools/requirements.txt
#
# Says what it is about to install, and nothing when there is nothing to do.
set -eu

top=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd)
build=${CPUIDLE_LAB_BUILD:-$top/build} # the first is of an installed command
venv=$build/venv
wanted=$top/tools/requirements.txt
log=$build/setup.log

# package               program, file or library        use
packages="
python3-venv            python3                         build/venv
gcc                     gcc                             userspace tests, native tools
libc6-dev               /usr/include/stdio.h            the same
make                    make                            the targets of the Makefile
pkg-config              pkg-config                      finds the tracing libraries
binutils                objdump                         objdump and nm in the tests of the built modules
kmod                    modinfo                         modinfo in the tests of the built modules
libtracecmd-dev         libtracecmd.pc                  the trace reader
libtraceevent-dev       libtraceevent.pc                the same
libtracefs-dev          libtracefs.pc                   the same
trace-cmd               trace-cmd                       reading traces by hand, comparison in the tests
g++                     g++                             the plugin for KernelShark, in the tests
libkshark-dev           libkshark.pc                    the same
libjson-c-dev           json-c.pc                       the same
libgl-dev               /usr/include/GL/gl.h            the same
libglu1-mesa-dev        /usr/include/GL/glu.h           the same
mmdebstrap              mmdebstrap                      the lab's images
debian-archive-keyring  /usr/share/keyrings/debian-archive-keyring.gpg signatures of what the images are made of
uidmap                  newuidmap                       making them without being root
zstd                    zstd                            the lab's images
xz-utils                xz                              unpacks linux-source for the equality proof
valgrind                valgrind                        instruction counts in the tests
bison                   bison                           kernels with checkers, for storms
flex                    flex                            the same
bc                      bc                              the same
libelf-dev              /usr/include/libelf.h           the same
pahole                  pahole                          the same: the kernels' types, for programs in BPF
sparse                  sparse                          make lint: types and locks of the kernel code
shellcheck              shellcheck                      make lint: scripts
codespell               codespell                       make lint: spelling
mariadb-server-core     mariadbd                        a database server for the tests of tune, started by them alone
"

# For cpuidle-lab bpf, lab --governor bpf:NAME and make bpf alone.
bpf_packages="
clang-19                clang-19                        governors as programs in BPF
llvm-19                 llc-19                          the same
libbpf-dev              /usr/include/bpf/bpf_helpers.h  their headers
"

# For make -C tests/campaigns/fuzz.
fuzz_packages="
clang-19                clang-19                        compiles the fuzz targets
libclang-rt-19-dev      clang-19                        libFuzzer and the sanitizers
"

# For make wheel-proof. Their installation makes the kernel run such programs.
arm64_packages="
arch-test               arch-test                       tells mmdebstrap that such programs run
qemu-user-static        qemu-aarch64-static             runs programs for arm64
binfmt-support          update-binfmts                  tells the kernel so without systemd, too
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

# Succeeds if a package is installed; without dpkg, if the program, file or library is there.
is_there() {
	if command -v dpkg-query >/dev/null; then
		state=$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) || state=
		[ "$state" = installed ]
		return
	fi
	case $2 in
	/*) [ -e "$2" ] ;;
	*.pc) pkg-config --exists "${2%.pc}" 2>/dev/null ;;
	*) command -v "$2" >/dev/null ;;
	esac
}

# Prints the packages of the table that are not installed.
missing_packages() {
	echo "$packages" | while read -r package probe _; do
		[ -z "$package" ] || is_there "$package" "$probe" || echo "$package"
	done
}

install_packages() {
	missing=$(missing_packages | tr '\n' ' ')
	missing=${missing% }
	[ -n "$missing" ] || return 0
	command -v apt-get >/dev/null ||
		die "apt-get was not found; install what Debian has in these packages: $missing"

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
	echo "Making the Python environment $venv: $count packages, 140 MB to download," \
		"560 MB on disk, once"
	logged "$python" -m venv --clear "$venv"
	counted "$count" "$venv/bin/pip" install --disable-pip-version-check -r "$wanted"
	cp "$wanted" "$venv/.requirements.txt"
}

mkdir -p "$build" 2>/dev/null || die "$build cannot be made"
exec 9>"$build/setup.lock"
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
arm64)
	packages=$arm64_packages
	install_packages
	;;
python) install_python ;;
all)
	install_packages
	install_python
	;;
*) die "unknown part '$1'; give packages, bpf, fuzz, arm64, python or nothing" ;;
esac
