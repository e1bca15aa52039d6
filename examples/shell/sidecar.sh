# SPDX-License-Identifier: Apache-2.0
#
# How a shell script asks elector-sidecar whether its pod leads. POSIX sh with curl, on Linux; to be read in with ".".
#
#   SIDECAR_URL  where the sidecar is (http://localhost:4040)

sidecar_url=${SIDECAR_URL:-http://localhost:4040}
long_wait_ms=25000 # how long a request may block: proxies cut quiet connections after 30 to 60 seconds

answer=$(mktemp) || exit 1
curl=
stopping=
trap 'rm -f "$answer"' EXIT
trap 'stopping=1; [ -z "$curl" ] || kill "$curl" 2>/dev/null' TERM INT

# now_ms prints milliseconds of a clock that nobody sets, and that goes on while the machine is suspended.
now_ms() {
	read -r uptime _ </proc/uptime
	hundredths=${uptime%.*}${uptime#*.}
	hundredths=${hundredths#"${hundredths%%[!0]*}"} # no leading zeros: they would mean octal
	echo $((${hundredths:-0} * 10))
}

# seconds MILLISECONDS prints seconds.
seconds() { echo "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))"; }

field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$answer"; }

# ask WAIT [LIMIT], in milliseconds, asks who leads: the answer comes once it is news or WAIT is over, and none within
# LIMIT counts as an error. Afterwards $until is when this pod's leadership ends unless it is renewed, by now_ms, and
# $token its fencing token. Where the pod does not lead, $until is 0. So it is after any error.
revision=
until=0
token=0
ask() {
	sent=$(now_ms) # the validity counts from before the request: no delay of the answer can stretch it
	# In the background, since a shell heeds signals during "wait" and not while a command runs.
	curl --silent --fail --noproxy '*' --max-time "$(seconds "${2:-$(($1 + 3000))}")" --output "$answer" \
		--get --data-urlencode "revision=$revision" --data-urlencode "wait=${1}ms" "$sidecar_url/leader" &
	curl=$!
	[ -z "$stopping" ] || kill "$curl" 2>/dev/null
	until=0
	if wait "$curl"; then
		curl=
		revision=$(field revision)
		token=$(field fencingToken)
		valid_ms=$(field validForMs)
		case $(field isLeader),$valid_ms in
		true, | true,*[!0-9]*) ;;
		true,*) until=$((sent + valid_ms)) ;;
		esac
	else
		curl=
		revision=
		[ "$stopping" ] || sleep 1
	fi
}

# ended says that the work has stopped, so that a sidecar that hands the lease over need not wait any longer. Otherwise
# nothing comes of it.
ended() {
	post release
}

# leave gives leadership up, for good and at once: the sidecar may not have been told to stop yet.
leave() {
	post resign
	post release
}

post() { # route
	curl --silent --noproxy '*' --max-time 3 --output /dev/null --request POST "$sidecar_url/$1" || :
}
