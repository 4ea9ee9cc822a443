# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# TAP for tests written in bash: source it, call check for each test, end with finish.
#
#	check NAME COMMAND [ARGUMENT]...	passes when the command does; its output is shown
#						when it does not
#	skip NAME REASON
#	finish					the plan; status 1 when something failed

TEST_ROOT=${TEST_ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
TEST_BUILD=${TEST_BUILD:-$TEST_ROOT/build}
TEST_LIB=${TEST_LIB:-$TEST_BUILD/lib}
TEST_BIN=${TEST_BIN:-$TEST_BUILD/bin}
verbatim=$TEST_BIN/verbatim

tap_count=0
tap_failed=0
tap_scratch=$(mktemp -d "${TEST_TMP:-${TMPDIR:-/tmp}}/verbatim-tap-XXXXXX")
chmod 755 "$tap_scratch"
trap 'rm -rf "$tap_scratch"' EXIT

check() {
	local name=$1 log=$tap_scratch/check.log
	shift
	tap_count=$((tap_count + 1))
	if "$@" >"$log" 2>&1 </dev/null; then
		echo "ok $tap_count - $name"
	else
		sed 's/^/# /' "$log"
		echo "not ok $tap_count - $name"
		tap_failed=$((tap_failed + 1))
	fi
}

skip() {
	tap_count=$((tap_count + 1))
	echo "ok $tap_count - $1 # SKIP $2"
}

# expect STATUS PATTERN COMMAND...: ends with that status, says something that matches.
expect() {
	local want=$1 pattern=$2 got=0 said
	shift 2
	said=$("$@" 2>&1) || got=$?
	[ "$got" = "$want" ] || { echo "status $got, not $want; it said: $said"; return 1; }
	grep -Eq -- "$pattern" <<<"$said" || { echo "nothing like '$pattern' in: $said"; return 1; }
}

finish() {
	echo "1..$tap_count"
	[ "$tap_failed" = 0 ]
}

# Until a server listens on PORT, by TCP or rdma_cm ("any": by rdma_cm, on whichever). Fails after half a minute.
# For `bash -c`, too.
await_server() {
	local port=[0-9A-Fa-f]{4} i
	[ "$1" = any ] || port=$(printf %04X "$1")
	for ((i = 0; i < 600; i++)); do
		grep -Eqi "@verbatim/service/[0-9a-f]{12}$port(/|\$)" /proc/net/unix && return
		[ "$1" = any ] || ! grep -qi ":$port 0*:0000 0A" /proc/net/tcp /proc/net/tcp6 || return 0
		sleep 0.05
	done
	return 1
}
export -f await_server
