// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestReference(t *testing.T) {
	for name, want := range map[string]struct{ full, familiar string }{
		"elector-sidecar":           {"docker.io/library/elector-sidecar:latest", "elector-sidecar:latest"},
		"elector-sidecar:v1.2":      {"docker.io/library/elector-sidecar:v1.2", "elector-sidecar:v1.2"},
		"team/app:v1":               {"docker.io/team/app:v1", "team/app:v1"},
		"docker.io/app:v1":          {"docker.io/library/app:v1", "app:v1"},
		"localhost/app:v1":          {"localhost/app:v1", "localhost/app:v1"},
		"localhost:5000/app":        {"localhost:5000/app:latest", "localhost:5000/app:latest"},
		"registry.example/a/b__c:_": {"registry.example/a/b__c:_", "registry.example/a/b__c:_"},
	} {
		got, err := parseReference(name)
		if err != nil || got.String() != want.full || got.familiar() != want.familiar {
			t.Errorf("%q is %s, %s, want %s, %s (%v)", name, got, got.familiar(), want.full, want.familiar, err)
		}
	}
	for _, name := range []string{
		"", "App", ":v1", "app:", "app:v1:v2", "app:v1+2", "app:.v1", "a//b", "/app", "app/", "-app", "a b",
		"app@sha256:" + strings.Repeat("0", 64), "app:" + strings.Repeat("v", 129), "registry.example/",
	} {
		if got, err := parseReference(name); err == nil {
			t.Errorf("%q is taken for %s", name, got)
		}
	}
}
