{{- define "tidings.group" -}}
archive.tidings.internal
{{- end }}

{{- define "tidings.name" -}}
{{- .Release.Name | trunc 44 | trimSuffix "-" }}-archive
{{- end }}

{{- /* Not empty if the API server has a Service of its own, which leads to the first of several
archives. A given certificate has only the name of the Service for all. */ -}}
{{- define "tidings.hasFirst" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.tls.existingSecret) }}true{{ end }}
{{- end }}

{{- /* The Service that the API server asks. */ -}}
{{- define "tidings.apiServiceName" -}}
{{- include "tidings.name" . }}{{ if include "tidings.hasFirst" . }}-first{{ end }}
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

{{- /* Bindings of the readers of other clusters, and the given ones: a file of permissions. */ -}}
{{- define "tidings.rbac" -}}
{{- $documents := list }}
{{- range $name, $settings := .Values.clusters }}
{{- if $settings.readers }}
{{- $subjects := list }}
{{- range $settings.readers }}
{{- $subjects = append $subjects (dict "apiGroup" "rbac.authorization.k8s.io" "kind" "Group" "name" .) }}
{{- end }}
{{- $role := dict "apiGroup" "rbac.authorization.k8s.io" "kind" "ClusterRole" "name" "view" }}
{{- $metadata := dict "name" (printf "readers-of-%s" $name) "labels" (dict "archive.tidings.internal/cluster" $name) }}
{{- $binding := dict "apiVersion" "rbac.authorization.k8s.io/v1" "kind" "ClusterRoleBinding" "metadata" $metadata "roleRef" $role "subjects" $subjects }}
{{- $documents = append $documents (toYaml $binding) }}
{{- end }}
{{- end }}
{{- with .Values.rbac }}
{{- $documents = append $documents . }}
{{- end }}
{{- join "\n---\n" $documents }}
{{- end }}
