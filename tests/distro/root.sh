# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Root directories of other systems, made by debootstrap below build/distro: for the tests of other releases and
# of the recipes. Behind tap.sh; the caller sets `release`.
store=$TEST_BUILD/distro

# Debian's archive as this machine's apt has it.
find_mirror() {
	local proxy=
	mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
		awk '$1 == "Debian" { print $2; exit }')
	mirror=${mirror%/}
	mirror=${mirror:-http://deb.debian.org/debian}
	eval "$(apt-config shell proxy Acquire::http::Proxy)"
	[ -z "$proxy" ] || [ "$proxy" = DIRECT ] || export http_proxy=$proxy
}

# bootstrap DIRECTORY OPTIONS...: packages that were downloaded once are kept.
bootstrap() {
	local directory=$1
	shift
	mkdir -p "$store/packages"
	rm -rf --one-file-system "$directory"
	unshare --mount --propagation private --pid --fork --kill-child \
		debootstrap --variant=minbase --cache-dir="$store/packages" "$@" "$release" "$directory" "$mirror" \
		>"$tap_scratch/debootstrap.log" 2>&1 && return
	tail -n 20 "$tap_scratch/debootstrap.log"
	return 1
}

# The sources as git has them or would take them, or without git all but what was built.
copy_sources() {
	mkdir -p "$1/src"
	cd "$TEST_ROOT" || return
	if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
		git ls-files -co --exclude-standard -z | tar -c --null --ignore-failed-read -T -
	else
		tar -c --exclude=./build .
	fi | tar -x --no-same-owner -C "$1/src"
}

# package_works ROOT PACKAGE.deb: installed beside the distribution's libibverbs1 in a root with a minimal system,
# its commands run; removed, it leaves nothing.
package_works() {
	local root=$1 package=$2 enter=$TEST_ROOT/tests/distro/enter
	cp "$package" "$root/verbatim.deb" && cp "$TEST_ROOT"/tests/distro/{inside,package} "$root/" || return
	"$enter" "$root" online bash /package install && "$enter" "$root" alone bash /package whole &&
		"$enter" "$root" alone bash /inside /usr lists &&
		"$enter" "$root" alone bash /inside /usr pair ibv_rc_pingpong -g 1 -- ibv_rc_pingpong -g 1 127.0.0.1 &&
		"$enter" "$root" alone bash /package remove
}
