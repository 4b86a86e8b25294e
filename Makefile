# SPDX-License-Identifier: GPL-2.0
# For people. kbuild reads Kbuild instead.

VERSION := $(shell cat VERSION)
KDIR ?= /lib/modules/$(shell uname -r)/build
# A kernel that clang built takes modules that clang built.
IS_CLANG = $(shell grep -s '^CONFIG_CC_IS_CLANG=y' $(KDIR)/include/config/auto.conf)
CLANG = $(if $(LLVM),,$(if $(IS_CLANG),LLVM=1))
DKMS_SOURCES = $(DESTDIR)/usr/src/cpuidle-lab-$(VERSION)

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

test-slice:	## the long tests whose turn it is, 10 minutes at most; writes tests/long.tsv
	@tools/setup.sh
	@$(PYTEST) --slice --record $(PYTEST_ARGS)

crossval:	## what replay predicts beside what the kernel then does, every workload, five seeds
	@tools/setup.sh
	@CPUIDLE_LAB_ALL_CPUS=1 $(LAB) crossval --record $(CROSSVAL_ARGS)

proof-%:	## one of the proofs and campaigns of docs/proofs.md; storm: STORM_ARGS=--help
	@tools/setup.sh
	@$(if $(filter bpf,$*),tools/setup.sh bpf)
	@$(LAB) experiment $* $(or $($(shell echo $* | tr a-z A-Z)_ARGS),--record)

$(PROOFS): %: proof-%

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

tunables-doc:	## write docs/tunables.md from the governors' source
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

kunit-modules:	## build cpuidle_lab_kunit.ko for a kernel with KUnit (KDIR=)
	$(MAKE) -C $(KDIR) M=$(CURDIR) $(CLANG) CIL_KUNIT=1 modules

latnice:	## build the tool for latency hints, build/latnice/latnice
	$(MAKE) -C tools/latnice

kernelshark:	## build the plugin for KernelShark, build/kernelshark/plugin-cpuidle_lab.so
	$(MAKE) -C kernelshark

deb:	## build the Debian packages in clean roots, look at them with lintian; into build/deb
	@tools/setup.sh
	@$(PYTHON) packaging/deb.py

dkms-roots:	## install, upgrade, remove by DKMS and by packages on clean Debian 12 and 13
	@tools/setup.sh
	@$(PYTHON) -m pytest tests/campaigns/packaging $(PYTEST_ARGS)

dkms-sources:	## copy what DKMS needs to /usr/src (or DESTDIR=)
	install -d $(DKMS_SOURCES)
	cp -R Kbuild VERSION COPYING dkms.conf module emul governors $(DKMS_SOURCES)

clean:	## remove what was built in the tree (build/ stays: rm -r build)
	find . -path ./build -prune -o \( -name '*.o' -o -name '*.ko' -o -name '*.mod' \
		-o -name '*.mod.c' -o -name '.*.cmd' -o -name modules.order \
		-o -name Module.symvers \) -type f -exec rm -f {} +

.PHONY: help demo newest test test-full test-slice crossval fuzz-recordings bench-gate experiments $(PROOFS) $(STORMS) \
	tunables-doc proofs-doc size lint modules kunit-modules latnice kernelshark deb \
	dkms-roots dkms-sources clean
