// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestDockerfile: an image that docker builds runs as one that this program writes.
func TestDockerfile(t *testing.T) {
	content, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stages := strings.Split(string(content), "\nFROM ")
	last := "FROM " + stages[len(stages)-1]

	var want struct{ base, path, user, port, entrypoint string }
	fields := map[string]*string{
		"FROM": &want.base, "COPY": &want.path, "USER": &want.user, "EXPOSE": &want.port, "ENTRYPOINT": &want.entrypoint,
	}
	for line := range strings.Lines(last) {
		name, arguments, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		field := fields[name]
		if field == nil || *field != "" {
			t.Fatalf("%s: internal/image does not do this yet, or it is there twice", strings.TrimSpace(line))
		}
		*field = arguments
	}
	if want.base != "scratch" {
		t.Errorf("the Dockerfile begins with %q, the image with nothing", want.base)
	}
	var entrypoint []string
	if err := json.Unmarshal([]byte(want.entrypoint), &entrypoint); err != nil {
		t.Fatalf("ENTRYPOINT %s: %v", want.entrypoint, err)
	}
	wantConfig := map[string]any{
		"User":         want.user,
		"ExposedPorts": map[string]any{want.port + "/tcp": map[string]any{}},
		"Entrypoint":   []any{},
	}
	for _, word := range entrypoint {
		wantConfig["Entrypoint"] = append(wantConfig["Entrypoint"].([]any), word)
	}

	image := readImage(t, write(t, "-binary", programFile(t, amd64)))
	var config struct{ Config map[string]any }
	decode(t, image.config, &config)
	if !reflect.DeepEqual(config.Config, wantConfig) {
		t.Errorf("the image runs as %v, that of the Dockerfile as %v", config.Config, wantConfig)
	}
	_, path, _ := strings.Cut(want.path, "/elector-sidecar ")
	if names := tarNames(t, bytes.NewReader(image.layer)); len(names) != 1 || "/"+names[0] != path {
		t.Errorf("the image has %q, that of the Dockerfile %q", names, path)
	}
}
