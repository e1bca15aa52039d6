// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/sidecar"
)

// TestOnARealAPIServer applies the example, and runs the sidecar with the token of the example's service account.
func TestOnARealAPIServer(t *testing.T) {
	c := startCluster(t)
	const namespace, account, lease, service = "elector-example", "app", "app", "app-leader"
	got := render(t, "manifests/overlays/leader-service", nil)
	apply(t, c.Config(), "manifests/overlays/leader-service", nil) // which is the example, and a Service

	t.Run("the pod is admitted", func(t *testing.T) {
		pods := kubernetes.NewForConfigOrDie(c.Config()).CoreV1().Pods(namespace)
		pod := &corev1.Pod{ObjectMeta: *got.workloads[0].pod.ObjectMeta.DeepCopy(), Spec: *got.workloads[0].pod.Spec.DeepCopy()}
		pod.GenerateName = "app-"
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
			t.Error(err)
		}
		pod.Spec.InitContainers[0].SecurityContext = nil
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("without the sidecar's security context: %v; the namespace should refuse it", err)
		}
	})

	for component := range components {
		t.Run(component+" is accepted", func(t *testing.T) {
			apply(t, c.Config(), "app", map[string]string{
				"kustomization.yaml": strings.Replace(kustomization(component, ""), "namespace: shop", "namespace: default", 1),
				"elector.yaml":       names(component, "default"),
				"app.yaml":           app("Deployment", component, "") + app("StatefulSet", component, ""),
			})
		})
		t.Run(component+" with all signs is accepted", func(t *testing.T) {
			lease := "signs-" + component
			apply(t, c.Config(), "app", map[string]string{
				"kustomization.yaml": strings.Replace(kustomizationOf(append([]string{component}, signComponents...), ""), "namespace: shop", "namespace: default", 1),
				"elector.yaml":       allNames(lease, "default"),
				"app.yaml":           app("Deployment", lease, "") + app("StatefulSet", lease, ""),
			})
		})
	}

	config := tokenOf(t, c, namespace, account)
	t.Run("the account may do what the sidecar does and no more", func(t *testing.T) {
		leases := kubernetes.NewForConfigOrDie(config).CoordinationV1().Leases(namespace)
		ctx := t.Context()
		var other *coordinationv1.Lease
		err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
			var err error
			other, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{})
			if apierrors.IsForbidden(err) { // the API server has yet to hear of the RoleBinding
				return false, nil
			}
			return err == nil, err
		})
		if err != nil {
			t.Fatal(err)
		}
		_, get := leases.Get(ctx, other.Name, metav1.GetOptions{})
		_, update := leases.Update(ctx, other, metav1.UpdateOptions{})
		_, list := leases.List(ctx, metav1.ListOptions{})
		_, watch := leases.Watch(ctx, metav1.ListOptions{})
		for verb, err := range map[string]error{
			"get": get, "update": update, "list": list, "watch": watch,
			"delete":     leases.Delete(ctx, other.Name, metav1.DeleteOptions{}),
			"delete own": leases.Delete(ctx, lease, metav1.DeleteOptions{}),
		} {
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v, want that it is forbidden", verb, err)
			}
		}
	})

	t.Run("the sidecar leads, hands over and is denied nothing", func(t *testing.T) {
		env := []string{
			"ELECTOR_LEASE_NAME=" + lease, "POD_NAMESPACE=" + namespace, "ELECTOR_LOG_FORMAT=json",
			"POD_IP=10.1.2.3", "ELECTOR_SERVICE=" + service, "KUBECONFIG=" + cluster.Kubeconfig(t, config),
		}
		first := sidecar.Start(t, built(t), "app-0", env...)
		first.Leads()
		first.AwaitGets("/healthz?verbose", 200, "[+]service/"+service+" ok")
		first.Logs("the Service leads to this pod")
		second := sidecar.Start(t, built(t), "app-1", env...)
		second.Follows("app-0")
		first.Is(sigterm)
		first.Exits(0)
		second.Leads()
		second.Logs("the Service leads to this pod")
		for _, s := range []*sidecar.Sidecar{first, second} {
			if log := s.Log(); strings.Contains(strings.ToLower(log), "forbid") || strings.Contains(log, "Role") {
				t.Errorf("%s was denied something:\n%s", s.Name, log)
			}
		}
	})
}

// apply creates what kustomize makes of a folder; a field that the API server does not know is an error.
func apply(t *testing.T, config *rest.Config, folder string, files map[string]string) {
	t.Helper()
	plain, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	strict := client.WithFieldValidation(plain, metav1.FieldValidationStrict)
	documents, err := run(t, folder, files)
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range documents {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, object); err != nil {
			t.Fatal(err)
		}
		if err := strict.Create(t.Context(), object); err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

// tokenOf is the way to the API server of a pod that runs under the account.
func tokenOf(t *testing.T, c *cluster.Cluster, namespace, account string) *rest.Config {
	t.Helper()
	token, err := kubernetes.NewForConfigOrDie(c.Config()).CoreV1().ServiceAccounts(namespace).
		CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token.Status.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(c.Config())
	config.BearerTokenFile = path
	return config
}
