#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# make demo: what Verbatim is for, shown on this machine in half a minute. Everything runs as the
# user that calls it, between two processes of this host; ends with status 0 only when each step
# did what it says.
set -u
cd "$(dirname "$0")/.." || exit 1
verbatim=build/bin/verbatim
examples=${EXAMPLES:-build/meson/examples}
hello=$examples/hello_verbs
scratch=$(mktemp -d)
children=()
cleanup() {
	[ ${#children[@]} = 0 ] || kill "${children[@]}" 2>/dev/null
	rm -rf "$scratch"
}
trap cleanup EXIT
failed=0

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi
title() {
	printf '\n%s%s%s\n' "$bold" "$1" "$plain"
}
show() {
	printf '  $ %s\n' "$*"
}
indent() {
	sed 's/^/    /'
}

# alone COMMAND...: run it under Verbatim and show what it prints
alone() {
	show "verbatim run $*"
	timeout 120 "$verbatim" run "$@" >"$scratch/out" 2>&1 </dev/null || {
		echo "    (ended with status $?)"
		failed=1
	}
	indent <"$scratch/out"
}

# Is somebody listening on TCP port $1? From the kernel's list, so that nobody is disturbed.
listening() {
	local hex
	hex=$(printf ':%04X' "$1")
	awk -v port="$hex" '$4 == "0A" && substr($2, length($2) - 4) == port { found = 1 }
		END { exit !found }' /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

# report FILTER STATUS: what the client said, or everything when something went wrong
report() {
	if [ "$2" = 0 ]; then
		grep -E "$1" "$scratch/client" | indent
		return
	fi
	echo "    (ended with status $2; server, then client:)"
	indent <"$scratch/server"
	indent <"$scratch/client"
	failed=1
}

# pair PORT FILTER COMMAND...: the same command as server, and as client of 127.0.0.1
pair() {
	local port=$1 filter=$2 server status=0
	shift 2
	show "verbatim run $*            # one process"
	show "verbatim run $* 127.0.0.1  # another"
	timeout 120 "$verbatim" run "$@" >"$scratch/server" 2>&1 </dev/null &
	server=$!
	children+=("$server")
	for _ in $(seq 100); do
		listening "$port" && break
		sleep 0.1
	done
	timeout 120 "$verbatim" run "$@" 127.0.0.1 >"$scratch/client" 2>&1 </dev/null || status=$?
	[ $status = 0 ] || kill "$server" 2>/dev/null
	wait "$server" || status=$?
	children=()
	report "$filter" $status
}

# meet FILTER PROGRAM SERVER_ARGUMENTS CLIENT_ARGUMENTS: over rdma_cm. Until the server listens, clients
# are refused, and come again.
meet() {
	local filter=$1 program=$2 server status=1
	show "verbatim run $program${3:+ $3}  # one process"
	show "verbatim run $program $4  # another"
	# shellcheck disable=SC2086
	timeout 120 "$verbatim" run "$program" $3 >"$scratch/server" 2>&1 </dev/null &
	server=$!
	children+=("$server")
	for _ in $(seq 50); do
		sleep 0.1
		# shellcheck disable=SC2086
		timeout 120 "$verbatim" run "$program" $4 >"$scratch/client" 2>&1 </dev/null &&
			status=0 && break
		kill -0 "$server" 2>/dev/null || break
	done
	[ $status = 0 ] || kill "$server" 2>/dev/null
	wait "$server" || status=$?
	children=()
	report "$filter" $status
}

title "Devices: each network interface that is up is an RDMA device"
alone ibv_devices
show "verbatim list"
"$verbatim" list | indent
[ "${PIPESTATUS[0]}" = 0 ] || failed=1

title "examples/hello_verbs.c: one process writes into the memory of another"
pair 18515 . "$hello"
grep -q 'client wrote: hello verbs' "$scratch/server" || failed=1
indent <"$scratch/server"

title "examples/hello_cm.c: the same, connected by the connection manager"
meet . "$examples/hello_cm" '' 127.0.0.1
grep -q 'client wrote: hello rdma_cm' "$scratch/server" || failed=1
indent <"$scratch/server"

title "examples/hello_ep.c: a message there and one back, with the fewest calls"
meet . "$examples/hello_ep" '' 127.0.0.1

title "rping of the distribution, unmodified: messages, READs and WRITEs over rdma_cm"
meet 'ping data' rping '-s -a 127.0.0.1 -C 3' '-c -a 127.0.0.1 -C 3 -v'

title "ibv_rc_pingpong of the distribution, unmodified: 1000 messages there and back"
pair 18515 'bytes|iters' ibv_rc_pingpong -d vb_lo -g 1

title "perftest of the distribution, unmodified: latency of small messages"
pair 18515 '^ *#bytes|^ *[0-9]+ ' ib_send_lat -d vb_lo -x 1 -n 5000

title "perftest of the distribution, unmodified: bandwidth of RDMA WRITE"
pair 18515 '^ *#bytes|^ *[0-9]+ ' ib_write_bw -d vb_lo -x 1 -n 5000

if [ $failed = 0 ]; then
	printf '\nAll of it worked. To run your own program: build/bin/verbatim run PROGRAM\n'
else
	printf '\nSomething did not work: build/bin/verbatim doctor may know why.\n'
fi
exit $failed
