//go:build tools

// Package tools imports what `cargo xtask reference` builds, so that `go mod tidy` keeps it.
package tools

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
