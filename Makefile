# SPDX-License-Identifier: GPL-2.0
# For people. kbuild reads Kbuild instead.

VERSION := $(shell cat VERSION)
KDIR ?= /lib/modules/$(shell uname -r)/build
DKMS_SOURCES = $(DESTDIR)/usr/src/cpuidle-lab-$(VERSION)

LAB := ./cpuidle-lab
PYTHON := build/venv/bin/python

help:	## show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

demo:	## boot a Debian kernel in virtual time, compare the governors, write a report
	@tools/setup.sh
	@$(LAB) demo

test:	## everything that can fail: unit, equality, tools, lab
	@tools/setup.sh
	@$(PYTHON) -m pytest $(PYTEST_ARGS)

equality:	## 10 million idle periods: the same decisions as mainline's teo and menu?
	@tools/setup.sh
	@$(PYTHON) tests/equality/run.py $(EQUALITY_ARGS)

fidelity:	## a million decisions in the lab: does replay make them again, all of them?
	@tools/setup.sh
	@$(PYTHON) tests/fidelity/run.py $(FIDELITY_ARGS)

bench:	## what decisions, reader and replay cost beside mainline's, and where ours lose
	@tools/setup.sh
	@$(LAB) bench $(BENCH_ARGS)

bench-gate:	## what latency hints are worth: latency and modelled energy in the lab
	@tools/setup.sh
	@$(LAB) bench gate $(BENCH_ARGS)

determinism:	## the same lab run twice: bit-identical traces?
	@tools/setup.sh
	@$(LAB) determinism

tunables-doc:	## write docs/tunables.md from the governors' source
	@$(PYTHON) tests/tunables.py

lint:	## ruff and mypy over the Python (checkpatch is part of the tests)
	@tools/setup.sh
	@$(PYTHON) -m ruff check tools tests
	@$(PYTHON) -m ruff format --check tools tests
	@$(PYTHON) -m mypy tools/cpuidle_lab

modules:	## build cpuidle_lab.ko and cpuidle_emul.ko for the running kernel (or KDIR=)
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

latnice:	## build the tool for latency hints, build/latnice/latnice
	$(MAKE) -C tools/latnice

dkms-sources:	## copy what DKMS needs to /usr/src (or DESTDIR=)
	install -d $(DKMS_SOURCES)
	cp -R Kbuild VERSION COPYING dkms.conf module emul governors $(DKMS_SOURCES)

clean:	## remove what was built in the tree (build/ stays: rm -r build)
	find . -path ./build -prune -o \( -name '*.o' -o -name '*.ko' -o -name '*.mod' \
		-o -name '*.mod.c' -o -name '.*.cmd' -o -name modules.order \
		-o -name Module.symvers \) -type f -exec rm -f {} +

.PHONY: help demo test equality fidelity bench bench-gate determinism tunables-doc lint modules latnice \
	dkms-sources clean
