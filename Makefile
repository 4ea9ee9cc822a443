# SPDX-License-Identifier: BSD-2-Clause
#
# A thin front over meson and ninja. What it makes lies in build/:
#
#	build/meson/	the meson build directory
#	build/stage/	everything as it would be installed under /
#	build/lib, build/bin	the libraries and the command, links into build/stage

SHELL = /bin/bash
.SHELLFLAGS = -euo pipefail -c
.DEFAULT_GOAL = all

PREFIX ?= /usr/local
DESTDIR ?=
BUILD = build
MESON_OPTIONS = -Dbuildtype=release -Ddebug=true -Dprefix=/usr -Dlibdir=lib/verbatim
VERSION = $(shell sed -n "s/^project.*, version: '\([^']*\)'.*/\1/p" meson.build)

.PHONY: all lib examples tests checked course pictures deps deps-build deps-long deps-interop deps-bench demo check check-long \
	check-interop bench install uninstall deb clean help

# The libraries and the command, nothing else, and soon: a message takes about a fifth more instructions than in
# what `make` builds, which is optimised as one program. build/lib and build/bin are whichever was made last.
lib: $(BUILD)/quick/build.ninja
	@ninja -C $(BUILD)/quick installed
	@meson install -C $(BUILD)/quick --no-rebuild --only-changed --quiet \
		--destdir $(CURDIR)/$(BUILD)/quick-stage
	@ln -sfn quick-stage/usr/lib/verbatim $(BUILD)/lib
	@ln -sfn quick-stage/usr/bin $(BUILD)/bin

$(BUILD)/quick/build.ninja:
	@command -v meson >/dev/null || { echo "meson is missing: run 'make deps-build' first"; exit 1; }
	@CC=$${CC:-gcc} meson setup -Doptimization=1 -Ddebug=false -Dprefix=/usr -Dlibdir=lib/verbatim $(BUILD)/quick

all: $(BUILD)/meson/build.ninja
	@ninja -C $(BUILD)/meson installed
	@meson install -C $(BUILD)/meson --no-rebuild --only-changed --quiet \
		--destdir $(CURDIR)/$(BUILD)/stage
	@ln -sfn stage/usr/lib/verbatim $(BUILD)/lib
	@ln -sfn stage/usr/bin $(BUILD)/bin

$(BUILD)/meson/build.ninja:
	@command -v meson >/dev/null || { echo "meson is missing: run 'make deps-build' first"; exit 1; }
	@CC=$${CC:-gcc} meson setup $(MESON_OPTIONS) $(BUILD)/meson

examples: all
	@ninja -C $(BUILD)/meson example-programs

# Everything there is to compile.
tests: $(BUILD)/meson/.tests
	@$(MAKE) --no-print-directory all
	@ninja -C $(BUILD)/meson all example-programs bench-programs unit-programs

# What make check runs: unit tests are compiled by clang alone, with sanitizers, when their turn comes.
checked: $(BUILD)/meson/.tests
	@$(MAKE) --no-print-directory all
	@tests/run --build

$(BUILD)/meson/.tests: | $(BUILD)/meson/build.ninja
	@meson configure $(BUILD)/meson -Dtests=true
	@touch $@

deps:
	@.ci/deps build demo test

deps-build:
	@.ci/deps build

deps-long:
	@.ci/deps build demo test long

deps-interop:
	@.ci/deps build demo test long interop

deps-bench:
	@.ci/deps build demo test bench

# Pictures of the tutorial and the traces of verbatim ladder --demo that tests expect, anew: after a change of what the
# transport does, or of how it is drawn.
pictures: $(BUILD)/meson/build.ninja
	@$(MAKE) --no-print-directory all
	@ninja -C $(BUILD)/meson tools/tutorial/tutorial-pictures
	@tests/examples/tutorial.py --pictures
	@rm -rf $(BUILD)/pictures-demo && $(BUILD)/bin/verbatim ladder --demo -o $(BUILD)/pictures-demo >/dev/null
	@cd $(BUILD)/pictures-demo/traces && sha256sum *.pcapng >$(CURDIR)/tests/ladder/demo.sha256
	@git --no-pager diff --stat -- docs/tutorial/pictures tests/ladder/demo.sha256

# The demo is of what is built, by `make lib` or by `make`, and brings that up to date; of nothing, by `make lib`.
BUILT = $(if $(filter stage/%,$(shell readlink $(BUILD)/bin)),all,lib)
BUILT_IN = $(if $(filter all,$(BUILT)),meson,quick)
DEMO_EXAMPLES = examples/hello_verbs examples/hello_cm examples/hello_ep

# What shows and tests looks after its packages itself.
demo:
	@.ci/deps build demo
	@$(MAKE) --no-print-directory $(BUILT)
	@ninja --quiet -C $(BUILD)/$(BUILT_IN) $(DEMO_EXAMPLES)
	@EXAMPLES=$(BUILD)/$(BUILT_IN)/examples tests/demo.sh

check: deps
	@$(MAKE) --no-print-directory checked
	@tests/run

# The rows of the course that the project was created from, each by the command that shows it.
course: deps
	@$(MAKE) --no-print-directory checked
	@TEST_LONG=1 tests/course/run --table

# PART=1..4: a part of it, so that several machines share the work.
check-long: deps-long
	@$(MAKE) --no-print-directory tests
	@tests/run --long $(if $(PART),--part '$(PART)')

check-interop: deps-interop
	@$(MAKE) --no-print-directory tests
	@tests/run --only interop

bench: deps-bench
	@$(MAKE) --no-print-directory tests
	@bench/run --save

install: all
	@mkdir -p '$(DESTDIR)$(PREFIX)'
	@cp -R --no-preserve=ownership $(BUILD)/stage/usr/. '$(DESTDIR)$(PREFIX)/'

# Removes the files that install put there, and the directories that are Verbatim's alone.
uninstall: all
	@cd $(BUILD)/stage/usr && find . ! -type d -print0 | \
		(cd '$(DESTDIR)$(PREFIX)' && xargs -0 rm -f)
	@cd '$(DESTDIR)$(PREFIX)' && \
		rm -df lib/verbatim/{rsocket,bench,} && \
		rmdir -p --ignore-fail-on-non-empty lib/*/wireshark/plugins 2>/dev/null; \
		{ [ ! -d share/doc/verbatim ] || find share/doc/verbatim -depth -type d -empty -delete; }

# A binary package of the same files, made by dpkg-deb.
deb: all
	@.ci/deb '$(VERSION)' $(BUILD)/stage $(BUILD)/verbatim_$(VERSION)_$$(dpkg --print-architecture).deb

clean:
	@rm -rf $(BUILD)

help:
	@echo 'make lib               compile the libraries and the command, into build/, soon'
	@echo 'make                   the same, optimised as one program'
	@echo 'make deps-build        install the Debian packages that this takes'
	@echo 'make deps              those of make demo and make check, too'
	@echo 'make demo              see it work'
	@echo 'make tests             compile the tests, the examples and the programs of bench/, too'
	@echo 'make check             all tests, minutes; ends with the count'
	@echo 'make pictures          those of the tutorial, anew, in the simulated world'
	@echo 'make course            what the course describes, row by row'
	@echo 'make check-long        more seeds, more fuzzing, every client; PART=1..4: a part of it'
	@echo 'make check-interop     against the kernel rdma_rxe, in a guest that is booted for it'
	@echo 'make bench             numbers and plots, beside UCX, libfabric, TCP, bare UDP and memory'
	@echo 'make install           under PREFIX (/usr/local), below DESTDIR; make uninstall'
	@echo 'make deb               a Debian package'
	@echo 'make clean             remove build/'
