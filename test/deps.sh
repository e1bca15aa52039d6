#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sees to the programs that the tests call besides Go: installs the missing ones where that is possible (Debian, root),
# and says which are missing where it is not.
set -eu
missing=
need() { # command package
	command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need curl curl
need python3 python3
need node nodejs
need javac default-jdk-headless # the example is run from its source
need timeout coreutils
need setsid util-linux
need setpriv util-linux
need cc gcc       # for the race detector
[ -e /usr/include/stdlib.h ] || missing="$missing libc6-dev"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
	echo "installing for the tests:$missing" >&2
	apt-get update -qq >&2
	# shellcheck disable=SC2086
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
else
	echo "the tests need these packages, by their Debian names:$missing" >&2
	for tool in curl python3 node javac; do # the race detector is dispensable
		command -v "$tool" >/dev/null || exit 1
	done
fi
