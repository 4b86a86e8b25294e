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
STORMS := storm-debug storm-kcfi storm-kcsan storm-rt storm-stock
# Targets of which pytest has only short forms; conftest.py names them where they are left out.
LONG := bpf mutants faults fuzz matrix $(STORMS) soak

help:	## show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

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

test-slice:	## the long tests whose turn it is, 12 minutes at most; writes tests/long.tsv
	@tools/setup.sh
	@$(PYTEST) --slice --record $(PYTEST_ARGS)

crossval:	## what replay predicts beside what the kernel then does, every workload, five seeds
	@tools/setup.sh
	@CPUIDLE_LAB_ALL_CPUS=1 $(LAB) crossval --record $(CROSSVAL_ARGS)

equality:	## 10 million idle periods: the same decisions as mainline's teo and menu?
	@tools/setup.sh
	@$(PYTHON) tests/proofs/equality/run.py $(EQUALITY_ARGS)

stock:	## how near a recording without the module comes to one with it, every workload
	@tools/setup.sh
	@$(PYTHON) tests/proofs/stock/run.py $(STOCK_ARGS)

fidelity:	## a million decisions in the lab: does replay make them again, all of them?
	@tools/setup.sh
	@$(PYTHON) tests/proofs/fidelity/run.py $(FIDELITY_ARGS)

bpf:	## governors as programs in BPF beside native ones, hostile programs (BPF_ARGS=--help)
	@tools/setup.sh
	@tools/setup.sh bpf
	@$(PYTHON) tests/proofs/bpf/run.py $(BPF_ARGS)

calibrate:	## emulated machines with hidden figures: does calibrate find them?
	@tools/setup.sh
	@$(PYTHON) tests/proofs/calibrate/run.py $(CALIBRATE_ARGS)

dashboard:	## the panels of docs/grafana.json, answered by Prometheus: docs/dashboard.png
	@tools/setup.sh
	@$(PYTHON) tests/proofs/dashboard/run.py -o build/dashboard.html \
		--screenshot docs/dashboard.png

bench-gate:	## the worth of latency hints: latency and modelled energy in the lab
	@tools/setup.sh
	@$(LAB) bench gate $(BENCH_ARGS)

experiments:	## what others have reported, replayed and in the lab, their figures beside ours
	@tools/setup.sh
	@$(LAB) experiment --all --lab $(EXPERIMENT_ARGS)

determinism:	## the same lab run twice: bit-identical traces?
	@tools/setup.sh
	@$(PYTHON) tests/proofs/determinism/run.py $(DETERMINISM_ARGS)

throughput:	## events a second of the trace reader, idle periods a second of replay
	@tools/setup.sh
	@$(PYTHON) tests/proofs/throughput/run.py $(THROUGHPUT_ARGS)

matrix:	## every kernel and architecture: build, load, switch, tune, hints, capture, unload
	@tools/setup.sh
	@$(PYTHON) tests/campaigns/matrix/run.py $(MATRIX_ARGS)

storm:	## random operations on both modules in kernels with checkers (STORM_ARGS=--help)
	@tools/setup.sh
	@$(PYTHON) tests/campaigns/storm/run.py $(STORM_ARGS)

$(STORMS): storm-%:
	@$(MAKE) --no-print-directory storm STORM_ARGS="--flavour $*"

evacuation:	## random changes of the evacuated CPUs under load and hotplug (EVACUATION_ARGS=--help)
	@tools/setup.sh
	@$(PYTHON) tests/campaigns/evacuation/run.py $(EVACUATION_ARGS)

faults:	## each allocation fails once, at load, governor switch and hints
	@tools/setup.sh
	@$(PYTHON) tests/campaigns/faults/run.py $(FAULTS_ARGS)

fuzz:	## random operations on every file of the modules in a kernel with checkers
	@tools/setup.sh
	@$(PYTHON) tests/campaigns/fuzz/run.py $(FUZZ_ARGS)

soak:	## 24 virtual hours under a light load, one under a heavy one: nothing may be lost (SOAK_ARGS)
	@tools/setup.sh
	@$(PYTHON) tests/campaigns/soak/run.py $(SOAK_ARGS)

tunables-doc:	## write docs/tunables.md from the governors' source
	@$(PYTHON) tests/unit/tunables.py

size:	## how large each governor is, and what it may be
	@python3 tests/unit/size.py

coverage:	## which share of the governors' code do their unit tests reach?
	@tools/setup.sh
	@$(PYTHON) tests/unit/unit_coverage.py $(COVERAGE_ARGS)

mutants:	## would the unit tests notice a wrong comparison in the governors?
	@tools/setup.sh
	@$(PYTHON) tests/campaigns/mutants/run.py $(MUTANTS_ARGS)

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

.PHONY: help demo test test-full crossval equality fidelity bpf calibrate dashboard bench-gate \
	determinism throughput matrix storm $(STORMS) evacuation faults fuzz soak tunables-doc size \
	coverage mutants lint \
	modules kunit-modules latnice kernelshark deb dkms-roots dkms-sources clean stock experiments
