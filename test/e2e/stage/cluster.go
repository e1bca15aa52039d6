// SPDX-License-Identifier: Apache-2.0

// Package stage is what the end-to-end cases play on: a cluster, a namespace for each case, apps with the sidecar as users
// get it from manifests/, and what is seen of them.
//
// A case creates a Stage with New, lets something happen, and looks at what the apps wrote and how the Lease changed. What it
// measured goes into one table, by NewRow.
package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/elector-sidecar/elector-sidecar/test/node/control"
)

// patience is how long a case waits for what has to happen soon. The machine may be busy.
const patience = 60 * time.Second

// label marks the namespaces of the cases; its value names their run.
const label = "elector-sidecar/e2e"

// leftover is the age from which a namespace can only be of a run that was killed.
const leftover = time.Hour

// cluster is the one that all cases run on.
type cluster struct {
	kubernetes.Interface
	objects  client.Client // creates what kustomize renders, strictly
	image    string        // of the sidecar
	appImage string
	existing bool   // somebody else's: nothing is done to its nodes
	run      string // names this run
	recorder *recorder
}

// shared is the cluster of this run.
var shared *cluster

// open connects to the cluster of KUBECONFIG. With E2E_EXISTING=1 that is any; otherwise it has to be a node of our own.
func open() (*cluster, error) {
	c := &cluster{
		image:    cmp.Or(os.Getenv("E2E_IMAGE"), "elector-sidecar:latest"),
		appImage: cmp.Or(os.Getenv("E2E_APP_IMAGE"), "e2e-app:latest"),
		existing: os.Getenv("E2E_EXISTING") == "1",
		run:      rand.String(8),
	}
	if os.Getenv("KUBECONFIG") == "" {
		return nil, errors.New("KUBECONFIG is not set: run the cases with make e2e, or set it and E2E_EXISTING=1 for a cluster of yours")
	}
	if !c.existing {
		if _, err := control.FromEnvironment(); err != nil {
			return nil, fmt.Errorf("without E2E_EXISTING=1 the cases need a node of their own: %w", err)
		}
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no limit
	config.WarningHandlerWithContext = rest.NoWarnings{}
	if c.Interface, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	plain, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	c.objects = client.WithFieldValidation(plain, metav1.FieldValidationStrict)
	return c, nil
}

// namespace creates a namespace that enforces the restricted pod security standard, and waits until pods can start in it.
func (c *cluster) namespace(ctx context.Context, name string) (string, error) {
	ns, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "e2e-" + name + "-",
		Labels:       map[string]string{label: c.run, "pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return ns.Name, poll(ctx, "the namespace has its service account and CA", func() (bool, error) {
		_, account := c.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		_, ca := c.CoreV1().ConfigMaps(ns.Name).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return account == nil && ca == nil, nil
	})
}

// removeNamespace begins to delete a namespace.
func (c *cluster) removeNamespace(name string) error {
	err := c.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
	return client.IgnoreNotFound(err)
}

// sweep begins to delete what runs that were killed have left on somebody else's cluster.
func (c *cluster) sweep(ctx context.Context) error {
	list, err := c.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil || !c.existing {
		return err
	}
	var problems error
	for _, ns := range list.Items {
		if time.Since(ns.CreationTimestamp.Time) > leftover {
			problems = errors.Join(problems, c.removeNamespace(ns.Name))
		}
	}
	return problems
}

// close deletes what is left of this run, and waits until it has gone. A node of our own goes as a whole.
func (c *cluster) close() error {
	if !c.existing {
		return nil
	}
	ctx := context.Background()
	return poll(ctx, "all namespaces of the cases have gone", func() (bool, error) {
		left, err := c.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: label + "=" + c.run})
		if err != nil {
			return false, err
		}
		for _, ns := range left.Items {
			if ns.DeletionTimestamp == nil {
				err = errors.Join(err, c.removeNamespace(ns.Name))
			}
		}
		return len(left.Items) == 0, err
	})
}

// poll looks every 50 ms whether something holds, until it does, it fails, or patience is over.
func poll(ctx context.Context, what string, holds func() (bool, error)) error {
	return pollFor(ctx, patience, what, holds)
}

func pollFor(ctx context.Context, atMost time.Duration, what string, holds func() (bool, error)) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(atMost); ; {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("it did not come true within %s that %s", atMost, what)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
