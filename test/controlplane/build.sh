#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds etcd and the named Kubernetes binaries (kube-apiserver when none is named), once, and prints the folder that
# holds them as the last line. The folder's name is a hash of go.mod and go.sum, so a new version never meets old binaries.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
	echo "$KUBEBUILDER_ASSETS"
	exit 0
fi
cd "$here"
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${version#v1.}
minor=${minor%%.*}
hash=$(cat go.mod go.sum | sha256sum | cut -c1-12)
root=$(cd ../.. && pwd)
out=$root/.cache/controlplane/$version-$hash

missing= packages=
for name in "${@:-kube-apiserver}"; do
	[ -x "$out/$name" ] && continue
	missing="$missing $name"
	packages="$packages k8s.io/kubernetes/cmd/$name"
done
[ -x "$out/etcd" ] || missing="etcd$missing"
if [ -n "$missing" ]; then
	echo "building $missing (minutes on the first run, then kept in ${out#"$root/"})" >&2
	new=$out/new.$$
	mkdir -p "$new"
	trap 'rm -rf "$new"' EXIT
	[ -x "$out/etcd" ] || CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$new/etcd" go.etcd.io/etcd/server/v3
	v=k8s.io/component-base/version
	# shellcheck disable=SC2086
	[ -z "$packages" ] || CGO_ENABLED=0 go build -trimpath -o "$new/" -ldflags "-s -w -X $v.gitVersion=$version \
		-X $v.gitMajor=1 -X $v.gitMinor=$minor -X $v.gitTreeState=clean" $packages
	mv "$new"/* "$out/"
fi
echo "$out"
