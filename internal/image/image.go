// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
)

// The media types of the OCI image specification, 1.0.
const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// settings are how a container of the image runs.
type settings struct {
	User         string
	ExposedPorts map[string]struct{} `json:",omitempty"`
	Entrypoint   []string
}

func newSettings(entrypoint []string, user string, port uint) settings {
	s := settings{User: user, Entrypoint: entrypoint}
	if port != 0 {
		s.ExposedPorts = map[string]struct{}{fmt.Sprintf("%d/tcp", port): {}}
	}
	return s
}

type config struct {
	Created string `json:"created"`
	platform
	Config settings `json:"config"`
	RootFS rootFS   `json:"rootfs"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

// saved is an entry of manifest.json, which docker save writes.
type saved struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// build makes the image, and returns its digest: that of the manifest or, for several platforms, of the index.
func build(ref reference, programs []program, s settings) (archive, string, error) {
	a := archive{}
	var manifests []descriptor
	var first manifest
	seen := map[platform]bool{}
	for _, p := range programs {
		if seen[p.platform] {
			return nil, "", fmt.Errorf("two binaries are for %s/%s", p.platform.OS, p.platform.Architecture)
		}
		seen[p.platform] = true
		m, err := a.addPlatform(p, s)
		if err != nil {
			return nil, "", err
		}
		if len(manifests) == 0 {
			first = m
		}
		d := a.addJSON(manifestType, m)
		d.Platform = &p.platform
		manifests = append(manifests, d)
	}
	top := manifests[0]
	if len(manifests) > 1 {
		top = a.addJSON(indexType, index{2, indexType, manifests})
	}
	top.Annotations = map[string]string{
		"io.containerd.image.name":          ref.String(),
		"org.opencontainers.image.ref.name": ref.tag,
	}
	a["oci-layout"] = marshal(map[string]string{"imageLayoutVersion": "1.0.0"})
	a["index.json"] = marshal(index{2, indexType, []descriptor{top}})
	a["manifest.json"] = marshal([]saved{{
		Config:   blobPath(first.Config.Digest),
		RepoTags: []string{ref.familiar()},
		Layers:   []string{blobPath(first.Layers[0].Digest)},
	}})
	return a, top.Digest, nil
}

// addPlatform adds the layer and the configuration for one platform.
func (a archive) addPlatform(p program, s settings) (manifest, error) {
	layer, err := tarOf(strings.TrimPrefix(s.Entrypoint[0], "/"), p.content)
	if err != nil {
		return manifest{}, err
	}
	var compressed bytes.Buffer
	z := gzip.NewWriter(&compressed)
	if _, err := z.Write(layer); err != nil {
		return manifest{}, err
	}
	if err := z.Close(); err != nil {
		return manifest{}, err
	}
	return manifest{
		SchemaVersion: 2,
		MediaType:     manifestType,
		Config: a.addJSON(configType, config{
			Created:  "1970-01-01T00:00:00Z", // the same each time
			platform: p.platform,
			Config:   s,
			RootFS:   rootFS{"layers", []string{digest(layer)}},
		}),
		Layers: []descriptor{a.add(layerType, compressed.Bytes())},
	}, nil
}

// tarOf is a tar with one program, which anybody may run and nobody may write.
func tarOf(name string, content []byte) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o555, Size: int64(len(content))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	err := w.Close()
	return buffer.Bytes(), err
}
