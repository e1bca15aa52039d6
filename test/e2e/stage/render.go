// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// LeaseName is the Lease of each stage.
const LeaseName = "web"

// Setup is what a stage consists of.
type Setup struct {
	Shape   Shape
	Timings Timings
	// Sidecar is more of the sidecar's environment.
	Sidecar map[string]string
	// Components of manifests/components that are added to that of the shape.
	Components []string
	// Names are more values of the ConfigMap in which users state the names.
	Names map[string]string
	// Objects are the workloads, which get the sidecar, and whatever else there is to be.
	Objects []runtime.Object
}

// render makes of a setup what a user of manifests/ would apply: the given files are a kustomization with its component.
func (s Setup) render(root, namespace, image string) ([]*unstructured.Unstructured, error) {
	fs := filesys.MakeFsInMemory()
	manifests := filepath.Join(root, "manifests")
	err := filepath.WalkDir(manifests, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return fs.WriteFile("/manifests/"+strings.TrimPrefix(path, manifests+"/"), content)
	})
	if err != nil {
		return nil, err
	}
	resources := []string{"elector.yaml"}
	for i, object := range s.Objects {
		content, err := yaml.Marshal(object)
		if err != nil {
			return nil, err
		}
		resources = append(resources, fmt.Sprintf("object-%d.yaml", i))
		if err := fs.WriteFile("/app/"+resources[i+1], content); err != nil {
			return nil, err
		}
	}
	for name, content := range map[string]any{"elector.yaml": s.names(), "kustomization.yaml": s.kustomization(namespace, image, resources)} {
		text, err := yaml.Marshal(content)
		if err != nil {
			return nil, err
		}
		if err := fs.WriteFile("/app/"+name, text); err != nil {
			return nil, err
		}
	}
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fs, "/app")
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, resource := range rendered.Resources() {
		content, err := resource.Map()
		if err != nil {
			return nil, err
		}
		objects = append(objects, &unstructured.Unstructured{Object: content})
	}
	return objects, nil
}

// mapping is a YAML mapping.
type mapping = map[string]any

func (s Setup) names() mapping {
	data := mapping{"leaseName": LeaseName, "serviceAccountName": "default"}
	for name, value := range s.Names {
		data[name] = value
	}
	return mapping{
		"apiVersion": "v1", "kind": "ConfigMap", "data": data,
		"metadata": mapping{"name": "elector-sidecar", "annotations": mapping{"config.kubernetes.io/local-config": "true"}},
	}
}

func (s Setup) kustomization(namespace, image string, resources []string) mapping {
	var components []string
	for _, name := range append([]string{string(s.Shape)}, s.Components...) {
		components = append(components, "../manifests/components/"+name)
	}
	colon := strings.LastIndex(image, ":")
	return mapping{
		"namespace": namespace, "resources": resources, "components": components,
		"images": []mapping{{"name": "elector-sidecar", "newName": image[:colon], "newTag": image[colon+1:]}},
		"patches": []mapping{{
			"target": mapping{"kind": "Deployment|StatefulSet", "labelSelector": "elector-sidecar/inject!=false"},
			"patch":  s.settings(),
		}},
	}
}

// handover is for how long the sidecar keeps the lease for the app to finish.
func (s Setup) handover() time.Duration {
	if value, ok := s.Sidecar["ELECTOR_HANDOVER_TIMEOUT"]; ok {
		d, err := time.ParseDuration(value)
		if err != nil {
			panic(err)
		}
		return d
	}
	if s.Shape == Ordinary {
		return HandoverTimeout
	}
	return 0
}

// settings is the patch by which the sidecar gets its settings.
func (s Setup) settings() string {
	env := map[string]string{
		"ELECTOR_LEASE_DURATION": s.Timings.Lease.String(), "ELECTOR_RENEW_DEADLINE": s.Timings.Renew.String(), "ELECTOR_RETRY_PERIOD": s.Timings.Retry.String(),
	}
	maps.Copy(env, s.Sidecar)
	var list []mapping
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, mapping{"name": name, "value": env[name]})
	}
	where := "containers"
	if s.Shape == Native {
		where = "initContainers"
	}
	sidecar := mapping{"name": "elector-sidecar", "imagePullPolicy": "IfNotPresent", "env": list}
	patch, err := yaml.Marshal(mapping{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": mapping{"name": "each"},
		"spec": mapping{"template": mapping{"spec": mapping{where: []mapping{sidecar}}}},
	})
	if err != nil {
		panic(err)
	}
	return string(patch)
}
