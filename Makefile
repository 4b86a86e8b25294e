# SPDX-License-Identifier: GPL-2.0
# For people. kbuild reads Kbuild instead.

VERSION := $(shell cat VERSION)
KDIR ?= /lib/modules/$(shell uname -r)/build
# A kernel that clang built takes modules that clang built.
IS_CLANG = $(shell grep -s '^CONFIG_CC_IS_CLANG=y' $(KDIR)/include/config/auto.conf)
CLANG = $(if $(LLVM),,$(if $(IS_CLANG),LLVM=1))
DKMS_SOURCES = $(DESTDIR)/usr/src/cpuidle-lab-$(VERSION)

# Contents and places of make install; docs/packaging.md describes them.
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
INSTALLED = $(DESTDIR)$(PREFIX)
SHARE = $(INSTALLED)/share/cpuidle-lab
DOC = $(INSTALLED)/share/doc/cpuidle-lab
SHARED := Kbuild VERSION bpf cpuidle-lab dkms.conf emul governors kunit module tools
# Made by use of the tree; DKMS and the tools do without.
NOT_SOURCES := __pycache__ *.o *.ko *.mod *.mod.c .*.cmd modules.order Module.symvers .tmp_versions
COPY_SOURCES = tar -c $(patsubst %,--exclude='%',$(NOT_SOURCES)) $(1) | \
	tar -x --no-same-owner --no-same-permissions -C $(2)
INSTALL_SERVICE = sed 's,/usr/\(bin\|lib\|share\)/,$(PREFIX)/\1/,' packaging/$(1) \
	>$(INSTALLED)/lib/systemd/system/$(1)

LAB := ./cpuidle-lab
PYTHON := build/venv/bin/python
PYTEST := $(PYTHON) -m pytest -n 2
PYTHON_SOURCES := tools experiments tests packaging conftest.py
# Proofs and campaigns, by the names of their folders.
PROOFS := $(notdir $(patsubst %/run.py,%,$(wildcard tests/proofs/*/run.py tests/campaigns/*/run.py)))
DASHBOARD_ARGS = --record --screenshot docs/dashboard.png
STORMS := storm-debug storm-kcfi storm-kcsan storm-rt storm-stock
# Targets of which pytest has only short forms; conftest.py names them where they are left out.
LONG := bpf mutants faults fuzz fuzz-recordings matrix $(STORMS) soak

help:	## show this list
	@sed -n 's/^\([a-z%-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | \
		sed 's/%/NAME/' | expand -t 24

demo:	## boot a Debian kernel in virtual time, compare the governors, write a report
	@tools/setup.sh
	@$(LAB) demo

test:	## what a change must pass, in minutes: unit, equality, tools, the lab's main paths
	@tools/setup.sh
	@$(PYTEST) $(PYTEST_ARGS)

test-full:	## everything that can fail, in many hours
	@tools/setup.sh
	@$(PYTEST) --full --record $(PYTEST_ARGS)
	@$(MAKE) --keep-going --no-print-directory $(LONG)

test-slice:	## the long tests whose turn it is, 7 minutes at most; writes tests/long.tsv
	@tools/setup.sh
	@$(PYTEST) --slice --record $(PYTEST_ARGS)

crossval:	## what replay and clones predict beside what the kernel then does, every workload
	@tools/setup.sh
	@export CPUIDLE_LAB_ALL_CPUS=1; $(LAB) crossval --record $(CROSSVAL_ARGS); missed=$$?; \
	$(LAB) experiment clone --all && exit $$missed

proof-%:	## one of the proofs and campaigns of docs/proofs.md; storm: STORM_ARGS=--help
	@tools/setup.sh
	@$(if $(filter bpf,$*),tools/setup.sh bpf)
	@$(LAB) experiment $* $(or $($(shell echo $* | tr a-z A-Z)_ARGS),--record)

$(PROOFS): %: proof-%

# The account and the oracle of domains are exact, the emulated machine has the same account, and
# four CPUs in the lab do the same twice.
domains:
	@$(MAKE) --no-print-directory proof-trees
	@$(MAKE) --no-print-directory proof-accounts
	@$(MAKE) --no-print-directory proof-determinism DETERMINISM_ARGS="--cpus 4 --record"

$(STORMS): storm-%:
	@$(MAKE) --no-print-directory proof-storm STORM_ARGS="--flavour $* --record"

# 10,000 damaged recordings through report, compare, replay and export; `make help` has no room.
fuzz-recordings:
	@tools/setup.sh
	@$(MAKE) --no-print-directory -C tests/campaigns/fuzz recordings

bench-gate:	## the worth of latency hints: latency and modelled energy in the lab
	@tools/setup.sh
	@$(LAB) experiment gate --lab $(BENCH_ARGS)

experiments:	## what others have reported, replayed and in the lab, their figures beside ours
	@tools/setup.sh
	@$(LAB) experiment --all --lab $(EXPERIMENT_ARGS)

newest:	## compare with Debian's newest kernel from now on: NEWEST, what changed, equality
	@tools/setup.sh
	@$(PYTHON) tests/proofs/equality/newest.py

tunables-doc:	# write docs/tunables.md from the governors' source
	@$(PYTHON) tests/unit/tunables.py

proofs-doc:
	@PYTHONPATH=tools $(PYTHON) -m experiments.proofs

size:	## sizes of governors and folders, and their limits
	@python3 tests/unit/size.py

lint:	## ruff, mypy, checkpatch, sparse, kernel-doc, shellcheck, codespell (also in make test)
	@tools/setup.sh
	@$(PYTEST) -q tests/unit/test_lint.py tests/unit/test_style.py $(LINT_ARGS)

modules:	## build cpuidle_lab.ko and cpuidle_emul.ko for the running kernel (or KDIR=)
	$(MAKE) -C $(KDIR) M=$(CURDIR) $(CLANG) modules

kunit-modules:	# build cpuidle_lab_kunit.ko for a kernel with KUnit (KDIR=)
	$(MAKE) -C $(KDIR) M=$(CURDIR) $(CLANG) CIL_KUNIT=1 modules

latnice:	## build the tool for latency hints, build/latnice/latnice
	$(MAKE) -C tools/latnice

kernelshark:	## build the plugin for KernelShark, build/kernelshark/plugin-cpuidle_lab.so
	$(MAKE) -C kernelshark

deb:	## build the Debian packages in clean roots, look at them with lintian; into build/deb
	@tools/setup.sh
	@$(PYTHON) packaging/deb.py

wheel:	## build the wheel, with native parts for machines without a compiler; into build/wheel
	@tools/setup.sh
	@$(PYTHON) packaging/wheel_backend.py build/wheel

patch-proof: proof-patch	# the series of `patch wteo`: checkers, a kernel that boots with it, decisions

wheel-proof:	# use the wheel on clean Debian 12 and 13 without compiler: the figures are the clone's
	@tools/setup.sh
	@tools/setup.sh arm64
	@$(PYTHON) -m pytest tests/campaigns/packaging/test_wheel.py $(PYTEST_ARGS)

foreign-packages:	# build the packages for Fedora and Arch as far as Debian's tools can
	@tools/setup.sh
	@$(PYTHON) -m pytest tests/campaigns/packaging/test_foreign.py $(PYTEST_ARGS)

dkms-roots:	## install, upgrade, remove by DKMS and by packages on clean Debian 12 and 13
	@tools/setup.sh
	@$(PYTHON) -m pytest tests/campaigns/packaging $(PYTEST_ARGS) \
		--ignore-glob="*/test_wheel.py" --ignore-glob="*/test_foreign.py"

dkms-sources:	# copy what DKMS needs to /usr/src (or DESTDIR=)
	install -d $(DKMS_SOURCES)
	$(call COPY_SOURCES,Kbuild VERSION COPYING dkms.conf module emul governors,$(DKMS_SOURCES))

install: install-tools install-module	## install tools, service, manuals, DKMS sources (PREFIX=, DESTDIR=)

install-tools:	# those of them that a machine without the module needs
	$(MAKE) -C tools/latnice install PREFIX=$(PREFIX)
	$(MAKE) -C tools/calibrate install PREFIX=$(PREFIX)
	install -D -m 755 packaging/cpuidle-lab-command $(INSTALLED)/bin/cpuidle-lab
	install -D -m 644 -t $(INSTALLED)/share/man/man1 docs/cpuidle-lab.1
	install -D -m 644 -t $(INSTALLED)/include module/uapi/cpuidle_latency.h
	install -d $(INSTALLED)/lib/systemd/system
	install -m 644 packaging/cpuidle-lab-sample.timer $(INSTALLED)/lib/systemd/system
	$(call INSTALL_SERVICE,cpuidle-lab-sample.service)
	rm -rf $(SHARE)
	install -d $(SHARE) $(DOC)
	$(call COPY_SOURCES,$(SHARED),$(SHARE))
	cp -R $(filter-out %/hardware.md,$(wildcard docs/*.md)) CONTRIBUTING.md \
		docs/measured docs/experiments $(DOC)

# The unit names hardware.md, so it comes with the service. Installing switches nothing on.
install-module: dkms-sources	# the module's sources for DKMS, and the service
	install -D -m 755 -t $(INSTALLED)/lib/cpuidle-lab packaging/cpuidle-lab-restore
	install -d $(INSTALLED)/lib/systemd/system $(DESTDIR)$(SYSCONFDIR)
	$(call INSTALL_SERVICE,cpuidle-lab.service)
	[ -e $(DESTDIR)$(SYSCONFDIR)/cpuidle-lab.conf ] || \
		install -m 644 packaging/cpuidle-lab.conf $(DESTDIR)$(SYSCONFDIR)
	install -D -m 644 -t $(DOC) docs/hardware.md

clean:	## remove what was built in the tree (build/ stays: rm -r build)
	find . -path ./build -prune -o \( -name '*.o' -o -name '*.ko' -o -name '*.mod' \
		-o -name '*.mod.c' -o -name '.*.cmd' -o -name modules.order \
		-o -name Module.symvers \) -type f -exec rm -f {} +

.PHONY: help demo domains newest test test-full test-slice crossval fuzz-recordings bench-gate experiments $(PROOFS) $(STORMS) \
	tunables-doc proofs-doc size lint modules kunit-modules latnice kernelshark deb \
	dkms-roots dkms-sources install install-tools install-module \
	wheel wheel-proof patch-proof foreign-packages clean
