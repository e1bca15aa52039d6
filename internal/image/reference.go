// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"regexp"
	"strings"
)

// reference is the name of an image in full: docker.io/library/elector-sidecar and v1.2.
type reference struct{ repository, tag string }

func (r reference) String() string { return r.repository + ":" + r.tag }

// familiar is the name as docker shows it.
func (r reference) familiar() string {
	name := strings.TrimPrefix(r.String(), "docker.io/")
	return strings.TrimPrefix(name, "library/")
}

var (
	hosts        = regexp.MustCompile(`^(localhost|[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)+|[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)*:[0-9]+)$`)
	repositories = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
	tags         = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)
)

// parseReference adds to a name what container engines add when it is left out.
func parseReference(name string) (reference, error) {
	host, rest, found := strings.Cut(name, "/")
	if !found || !hosts.MatchString(host) {
		host, rest = "docker.io", name
	}
	repository, tag, found := strings.Cut(rest, ":")
	if !found {
		tag = "latest"
	}
	if !repositories.MatchString(repository) {
		return reference{}, errors.New("is not the name of an image: lower case letters, digits and separators")
	}
	if !tags.MatchString(tag) {
		return reference{}, errors.New("has a tag with other than letters, digits, dots, dashes and underscores, or longer than 128")
	}
	if host == "docker.io" && !strings.Contains(repository, "/") {
		repository = "library/" + repository
	}
	return reference{host + "/" + repository, tag}, nil
}
