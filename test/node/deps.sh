#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sees to the programs that a one-node cluster needs besides the Kubernetes binaries: installs the missing ones where that is
# possible (Debian, root), and says which are missing where it is not.
set -eu
missing=
need() { # package, then a path or command that it brings
	command -v "$2" >/dev/null 2>&1 || missing="$missing $1"
}
need containerd containerd
need containerd containerd-shim-runc-v2
need runc runc
need containernetworking-plugins /usr/lib/cni/ptp
need nftables nft
need iproute2 ip
need util-linux nsenter
[ -z "$missing" ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "a one-node cluster needs these packages, by their Debian names:$missing" >&2
	exit 1
fi
echo "installing for the one-node cluster:$missing" >&2
apt-get update -qq >&2
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
case $missing in
*containerd*)
	# The package starts a service of the machine's own, which nothing here uses.
	[ ! -d /run/systemd/system ] || systemctl disable --quiet --now containerd.service
	;;
esac
