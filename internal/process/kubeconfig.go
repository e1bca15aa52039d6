// SPDX-License-Identifier: Apache-2.0

package process

import (
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a kubeconfig for a server that asks for no credentials, as the embedded Lease API does.
func WriteKubeconfig(path, server string) error {
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"it": {Server: server}},
		Contexts:       map[string]*clientcmdapi.Context{"it": {Cluster: "it"}},
		CurrentContext: "it",
	}, path)
}
