#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command at regular times in one pod at a time: in the one that leads, as the elector-sidecar beside it says. A
# run may take long. It is watched over, and stopped when the pod does not lead any more: by SIGTERM at once, and by
# SIGKILL before another pod can lead.
#
#   cron.sh SECONDS COMMAND [ARGUMENT]...
#
# The command has FENCING_TOKEN in its environment, to go with whatever it writes. When leadership moves, a time can be
# missed or be served twice: the command has to bear that.
#
#   SIDECAR_URL  where the sidecar is (http://localhost:4040)
set -u
. "$(dirname "$0")/sidecar.sh"
every=$1
shift

# next_time prints the first multiple of SECONDS after now: the same in each pod.
next_time() { echo $((($(date +%s) / every + 1) * every)); }

# to_job SIGNAL sends a signal to the job and to what it has started. 0 only tells whether there is any left.
to_job() { kill -s "$1" -- "-$job" 2>/dev/null || kill -s "$1" "$job" 2>/dev/null; }

# run COMMAND... runs the command while this pod leads.
run() {
	FENCING_TOKEN=$token setsid "$@" & # in a process group of its own, which can be stopped as a whole
	job=$!
	began_with=$token
	bound=$until
	while to_job 0; do
		left=$((bound - $(now_ms)))
		[ "$left" -gt 0 ] || left=0
		# Asked early enough for a job that has to stop to do so in time, even where no answer comes.
		[ "$stopping" ] || ask $((left / 3)) $((left / 2 + 1))
		if [ "$stopping" ] || [ "$until" -eq 0 ] || [ "$token" != "$began_with" ]; then
			echo "cron.sh: stopping $1" >&2
			stop_job
			break
		fi
		bound=$until
	done
	wait "$job" || echo "cron.sh: $1: exit code $?" >&2
	ended
}

# stop_job leaves the job until shortly before $bound to end by itself.
stop_job() {
	to_job TERM
	while to_job 0; do
		if [ $((bound - $(now_ms))) -le 300 ]; then
			to_job KILL
			break
		fi
		sleep 0.1
	done
}

next=$(next_time)
while [ -z "$stopping" ]; do
	left=$(((next - $(date +%s)) * 1000))
	if [ "$left" -gt "$long_wait_ms" ]; then
		ask "$long_wait_ms"
	elif [ "$left" -gt 0 ]; then
		ask "$left"
	else
		ask 0
		[ "$until" -le "$(now_ms)" ] || [ "$stopping" ] || run "$@"
		next=$(next_time)
	fi
done
leave
