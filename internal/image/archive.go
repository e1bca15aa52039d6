// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// archive is the files of an OCI image layout, by path.
type archive map[string][]byte

// add stores a blob under its digest.
func (a archive) add(mediaType string, content []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: digest(content), Size: len(content)}
	a[blobPath(d.Digest)] = content
	return d
}

func (a archive) addJSON(mediaType string, v any) descriptor { return a.add(mediaType, marshal(v)) }

// write writes the files as a tar in the order of their paths.
func (a archive) write(to io.Writer) error {
	w := tar.NewWriter(to)
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(a[name]))}); err != nil {
			return err
		}
		if _, err := w.Write(a[name]); err != nil {
			return err
		}
	}
	return w.Close()
}

func digest(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

func blobPath(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }

// marshal is for our own types, all of which can be marshalled.
func marshal(v any) []byte {
	content, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return content
}
