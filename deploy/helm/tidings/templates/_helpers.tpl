{{- define "tidings.group" -}}
archive.tidings.internal
{{- end }}

{{- define "tidings.name" -}}
{{- .Release.Name | trunc 44 | trimSuffix "-" }}-archive
{{- end }}

{{- define "tidings.selector" -}}
app.kubernetes.io/name: tidings-archive
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tidings.labels" -}}
{{ include "tidings.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "tidings.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "tidings.name" .) }}
{{- end }}

{{- define "tidings.image" -}}
{{- $image := .Values.image }}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- /* Names of cluster-wide objects: two releases of one name may be in two namespaces. */ -}}
{{- define "tidings.clusterName" -}}
{{- if eq .Release.Namespace .Release.Name -}}
{{ include "tidings.name" . }}
{{- else -}}
{{ .Release.Namespace }}-{{ include "tidings.name" . }}
{{- end }}
{{- end }}

{{- define "tidings.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop:
  - ALL
{{- end }}

{{- /* OpenShift's restricted-v2 chooses the uid and the fsGroup itself. */ -}}
{{- define "tidings.podSecurityContext" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- if not (.Capabilities.APIVersions.Has "security.openshift.io/v1") }}
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
{{- end }}
{{- end }}

{{- /* Not empty if a feed counts events for Prometheus. */ -}}
{{- define "tidings.countsEvents" -}}
{{- range .Values.feeds }}{{- if hasKey . "metrics" }}true{{- end }}{{- end }}
{{- end }}
