#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command over and over in one pod at a time: in the one that leads, as the elector-sidecar beside it says.
#
#   app.sh COMMAND [ARGUMENT]...
#
# Each run is one unit of work. It has FENCING_TOKEN in its environment, to go with whatever it writes. One that takes
# longer than UNIT_MS is killed; UNIT_MS has to be well below the sidecar's ELECTOR_RENEW_DEADLINE.
#
#   SIDECAR_URL  where the sidecar is (http://localhost:4040)
#   UNIT_MS      how long one run may take, in milliseconds (2000)
#   PAUSE_MS     the time between two runs, in milliseconds (1000)
set -u
. "$(dirname "$0")/sidecar.sh"
unit_ms=${UNIT_MS:-2000}
pause_ms=${PAUSE_MS:-1000}

led=
while [ -z "$stopping" ]; do
	if [ "$until" -gt 0 ]; then
		ask "$pause_ms" # a pause that the loss of leadership cuts short, and a fresh answer for the next unit
	else
		ask "$long_wait_ms"
	fi
	[ -z "$stopping" ] || break
	if [ $(($(now_ms) + unit_ms)) -lt "$until" ]; then # a unit that begins now ends while this pod still leads
		led=1
		FENCING_TOKEN=$token timeout -s KILL "$(seconds "$unit_ms")" "$@" || echo "app.sh: $1: exit code $?" >&2
	elif [ "$led" ] && [ "$until" -eq 0 ]; then
		led=
		ended
	fi
done
leave
