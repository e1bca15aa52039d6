#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds kube-apiserver and etcd, once, and prints the folder that holds them as the last line.
# The folder's name is a hash of go.mod and go.sum, so a new version never meets old binaries.
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
out=$(cd ../.. && pwd)/.cache/controlplane/$version-$hash

build() { # name package ldflags
	[ -x "$out/$1" ] && return
	echo "building $1 (minutes on the first run, then kept in ${out#"$(cd ../.. && pwd)/"})" >&2
	mkdir -p "$out"
	CGO_ENABLED=0 go build -trimpath -o "$out/$1.new" -ldflags "-s -w $3" "$2"
	mv "$out/$1.new" "$out/$1"
}
v=k8s.io/component-base/version
build etcd go.etcd.io/etcd/server/v3 ""
build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver \
	"-X $v.gitVersion=$version -X $v.gitMajor=1 -X $v.gitMinor=$minor -X $v.gitTreeState=clean"
echo "$out"
