#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A job for regular times that knows nothing of leaders and asks nobody: elector-sidecar exec runs it only while the pod
# leads.
#
#   elector-sidecar exec -- sh job.sh SECONDS
#
# It ends its unit of work on SIGTERM, within ELECTOR_HANDOVER_TIMEOUT. What it writes carries ELECTOR_FENCING_TOKEN.
#
#   OUTPUT  the file that it appends a line to
set -u
stopping=
trap 'stopping=1' TERM
while [ -z "$stopping" ]; do
	echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) $POD_NAME $ELECTOR_FENCING_TOKEN" >>"$OUTPUT" # the work
	sleep "$1" &
	wait $! # which a signal interrupts
done
