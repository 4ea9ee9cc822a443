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

.PHONY: all deps deps-interop deps-bench deps-missing demo check check-long check-interop bench \
	install uninstall deb clean help

all: $(BUILD)/meson/build.ninja
	@ninja -C $(BUILD)/meson
	@meson install -C $(BUILD)/meson --no-rebuild --only-changed --quiet \
		--destdir $(CURDIR)/$(BUILD)/stage
	@ln -sfn stage/usr/lib/verbatim $(BUILD)/lib
	@ln -sfn stage/usr/bin $(BUILD)/bin

$(BUILD)/meson/build.ninja:
	@command -v meson >/dev/null || { echo "meson is missing: run 'make deps' first"; exit 1; }
	@CC=$${CC:-gcc} meson setup $(MESON_OPTIONS) $(BUILD)/meson

deps:
	@.ci/deps build test

deps-interop:
	@.ci/deps build test interop

deps-bench:
	@.ci/deps build test bench

# demo and check look after themselves.
deps-missing:
	@.ci/deps --missing build test >/dev/null || $(MAKE) --no-print-directory deps

demo: deps-missing
	@$(MAKE) --no-print-directory all
	@tests/demo.sh

check: deps-missing
	@$(MAKE) --no-print-directory all
	@tests/run

check-long: deps-missing
	@$(MAKE) --no-print-directory all
	@tests/run --long

check-interop: deps-interop
	@$(MAKE) --no-print-directory all
	@tests/run --only interop

bench: deps-bench
	@$(MAKE) --no-print-directory all
	@bench/run --save

install: all
	@mkdir -p '$(DESTDIR)$(PREFIX)'
	@cp -R --no-preserve=ownership $(BUILD)/stage/usr/. '$(DESTDIR)$(PREFIX)/'

# Removes the files that install put there, and the directories that are Verbatim's alone.
uninstall: all
	@cd $(BUILD)/stage/usr && find . ! -type d -print0 | \
		(cd '$(DESTDIR)$(PREFIX)' && xargs -0 rm -f)
	@cd '$(DESTDIR)$(PREFIX)' && \
		rm -df lib/verbatim/{rsocket,} share/doc/verbatim/{examples,}

# A binary package of the same files, made by dpkg-deb.
deb: all
	@.ci/deb '$(VERSION)' $(BUILD)/stage $(BUILD)/verbatim_$(VERSION)_$$(dpkg --print-architecture).deb

clean:
	@rm -rf $(BUILD)

help:
	@echo 'make                   build into build/'
	@echo 'make deps              install the Debian packages that build and tests need'
	@echo 'make demo              see it work'
	@echo 'make check             all tests, minutes; ends with the count'
	@echo 'make check-long        more seeds, more fuzzing, every client'
	@echo 'make check-interop     against the kernel rdma_rxe, in a guest that is booted for it'
	@echo 'make bench             numbers and plots, beside UCX, libfabric, TCP, bare UDP and memory'
	@echo 'make install           under PREFIX (/usr/local), below DESTDIR; make uninstall'
	@echo 'make deb               a Debian package'
	@echo 'make clean             remove build/'
