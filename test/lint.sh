#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gofmt, go vet and staticcheck on both modules, and govulncheck where its database can be reached.
set -eu
cd "$(dirname "$0")/.."
unformatted=$(gofmt -l $(git ls-files '*.go'))
if [ -n "$unformatted" ]; then
	printf 'gofmt would change:\n%s\n' "$unformatted"
	exit 1
fi
tools=$PWD/test/tools/go.mod
for module in . test; do
	(
		cd "$module"
		go vet -tags e2e ./...
		go tool -modfile="$tools" staticcheck -tags e2e ./...
	)
done
if vulnerable=$(go tool -modfile="$tools" govulncheck ./... 2>&1); then
	echo "govulncheck: nothing found"
elif [ $? -eq 3 ] || ! printf '%s' "$vulnerable" | grep -q 'fetching vulnerabilities'; then
	printf '%s\n' "$vulnerable"
	exit 1
else
	echo "govulncheck: its database is out of reach; not checked"
fi
