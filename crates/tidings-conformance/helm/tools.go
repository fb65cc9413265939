//go:build tools

// Package tools imports what `cargo xtask test` builds, so that `go mod tidy` keeps it.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
