# SPDX-License-Identifier: Apache-2.0
.DEFAULT_GOAL := help
SHELL := /bin/sh

version := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
ldflags := -s -w -X main.version=$(version)
platforms = $(or $(PLATFORMS),linux/$(shell go env GOARCH))
# The race detector needs a C compiler; go env says 0 where there is none.
race     = $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the static, stripped binary into bin/
	CGO_ENABLED=0 go build -trimpath -ldflags '$(ldflags)' -o bin/ ./cmd/elector-sidecar

.PHONY: image
image: ## write bin/elector-sidecar.tar, an OCI image, without an engine (PLATFORMS="linux/amd64 linux/arm64": both in one)
	set -e; for platform in $(platforms); do \
		CGO_ENABLED=0 GOOS=$${platform%%/*} GOARCH=$${platform#*/} \
			go build -trimpath -ldflags '$(ldflags)' -o bin/$$platform/ ./cmd/elector-sidecar; \
	done
	go run ./internal/image -name $(or $(IMAGE),elector-sidecar:$(version)) -o bin/elector-sidecar.tar \
		$(foreach platform,$(platforms),-binary bin/$(platform)/elector-sidecar)

.PHONY: demo
demo: ## three sidecars elect, hand over and fail over (CLUSTER=1: on the kubeconfig's cluster; INTERACTIVE=1: stay running)
	@go run ./demo $(if $(CLUSTER),-cluster) $(if $(INTERACTIVE),-interactive)

.PHONY: test
test: test-fast ## run every test, those on a real kube-apiserver included
	assets=$$($(MAKE) -s assets | tail -n 1) && cd test && KUBEBUILDER_ASSETS="$$assets" go test $(race) -p 1 -timeout 30m ./...

.PHONY: test-deps
test-deps:
	@test/deps.sh

.PHONY: test-fast
test-fast: test-deps ## run the tests that need no control plane
	go test $(race) -p 8 -timeout 5m -skip '^TestSimulation$$' ./...
	go test -timeout 5m -run '^TestSimulation$$' ./pkg/elector # one goroutine a schedule: there is no race to detect

.PHONY: assets
assets: ## build kube-apiserver and etcd, once, and print their folder
	@test/controlplane/build.sh

node_binaries = kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy

.PHONY: node
node: # the program that runs a one-node cluster, and what it needs
	@test/node/deps.sh
	cd test && CGO_ENABLED=0 go build -trimpath -o ../bin/node ./node

.PHONY: e2e-images
e2e-images: # bin/elector-sidecar.tar and bin/e2e-app.tar, tagged latest
	@$(MAKE) -s image IMAGE=elector-sidecar:latest
	cd test && CGO_ENABLED=0 go build -trimpath -o ../bin/e2e-app ./e2e/app
	go run ./internal/image -name e2e-app:latest -binary bin/e2e-app -entrypoint /e2e-app -port 0 -o bin/e2e-app.tar

e2e_cases = ../../bin/e2e.test -test.v -test.timeout 20m -test.parallel 6 $(if $(RUN),-test.run '$(RUN)')
e2e_env = $(if $(E2E_REPORT),E2E_REPORT='$(abspath $(E2E_REPORT))')

.PHONY: e2e
e2e: $(if $(filter 1,$(E2E_EXISTING)),,node e2e-images) ## run the end-to-end cases on a real one-node cluster (root, Linux), or with E2E_EXISTING=1 on the kubeconfig's (RUN=regexp: some of them; E2E_REPORT=file: the table)
	cd test && CGO_ENABLED=0 go test -c -tags e2e -o ../bin/e2e.test ./e2e
ifeq ($(E2E_EXISTING),1)
	cd test/e2e && $(e2e_env) $(e2e_cases)
else
	@assets=$$(test/controlplane/build.sh $(node_binaries) | tail -n 1) && cd test/e2e && KUBEBUILDER_ASSETS="$$assets" $(e2e_env) \
		../../bin/node run -images ../../bin/elector-sidecar.tar,../../bin/e2e-app.tar -- $(e2e_cases)
endif

.PHONY: e2e-up
e2e-up: node e2e-images ## bring up a real one-node cluster to work with by hand (root, Linux), and say how to use it
	@assets=$$(test/controlplane/build.sh $(node_binaries) | tail -n 1) && \
		KUBEBUILDER_ASSETS="$$assets" bin/node up -images bin/elector-sidecar.tar,bin/e2e-app.tar

.PHONY: e2e-down
e2e-down: node ## take that cluster down
	@bin/node down

.PHONY: test-node
test-node: node ## test that a one-node cluster leaves nothing behind, however it ends (root, Linux)
	assets=$$(test/controlplane/build.sh $(node_binaries) | tail -n 1) && cd test && KUBEBUILDER_ASSETS="$$assets" go test -tags e2e -count 1 ./node

.PHONY: bench
bench: bench-failover ## everything that is measured

.PHONY: bench-failover
bench-failover: build ## measure failover and the HTTP API beside client-go and a bare server
	@assets=$$($(MAKE) -s assets | tail -n 1) && cd test && KUBEBUILDER_ASSETS="$$assets" go run ./bench

.PHONY: simulate
simulate: ## run N simulated schedules (SEED=n: that one, with its trace)
	go test ./pkg/elector -run '^TestSimulation$$' -v -timeout 24h -args -simulate=$(or $(N),100000) $(if $(SEED),-seed=$(SEED))

.PHONY: mutants
mutants: ## take one guard of the election away at a time; the simulation has to notice each
	go run ./internal/mutants

.PHONY: fuzz
fuzz: ## fuzz each target for FUZZTIME
	go test ./pkg/elector -run '^$$' -fuzz '^FuzzLease$$' -fuzztime $(or $(FUZZTIME),60s)
	go test ./pkg/httpapi -run '^$$' -fuzz '^FuzzQuery$$' -fuzztime $(or $(FUZZTIME),60s)
	go test ./cmd/elector-sidecar -run '^$$' -fuzz '^FuzzConfig$$' -fuzztime $(or $(FUZZTIME),60s)

.PHONY: chaos
chaos: ## faults on real processes and a real kube-apiserver for DURATION (SEED=n: the same schedule again)
	assets=$$($(MAKE) -s assets | tail -n 1) && cd test && KUBEBUILDER_ASSETS="$$assets" go run ./chaos -duration $(or $(DURATION),2m) $(if $(SEED),-seed $(SEED))

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, govulncheck
	@test/lint.sh

.PHONY: clean
clean: ## remove what was built
	rm -rf bin .cache
