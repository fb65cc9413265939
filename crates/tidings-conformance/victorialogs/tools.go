//go:build tools

// Package tools only names VictoriaLogs, so that `go mod tidy` keeps its modules.
package tools

import _ "github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs"
