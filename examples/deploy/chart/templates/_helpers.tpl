{{- define "tgi.name" -}}
{{ ternary .Release.Name (printf "%s-tgi" .Release.Name) (contains "tgi" .Release.Name) | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "tgi.selector" -}}
app.kubernetes.io/name: tgi
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tgi.labels" -}}
{{ include "tgi.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "tgi.secret" -}}
{{- if .Values.auth.existingSecret }}{{ .Values.auth.existingSecret }}
{{- else if or .Values.auth.apiKeys .Values.auth.adminKeys .Values.auth.hubToken }}{{ include "tgi.name" . }}
{{- end }}
{{- end }}

{{- /* Each replica needs a volume of its own: one that only a node may write cannot be shared. */ -}}
{{- define "tgi.stateful" -}}
{{- $p := .Values.persistence }}
{{- $several := or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) }}
{{- if and $p.enabled (not $p.existingClaim) $several (hasPrefix "ReadWriteOnce" $p.accessMode) }}yes{{ end }}
{{- end }}

{{- /* A pod has /cache for itself: its volume is its own, or ends with the pod before. */ -}}
{{- define "tgi.alone" -}}
{{- $several := or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) }}
{{- if or (include "tgi.stateful" .) (and (not $several) (hasPrefix "ReadWriteOnce" .Values.persistence.accessMode)) }}yes{{ end }}
{{- end }}

{{- define "tgi.scheme" -}}
{{ ternary "HTTPS" "HTTP" (ne .Values.tls.secret "") }}
{{- end }}

{{- define "tgi.claim" -}}
accessModes: [{{ .Values.persistence.accessMode }}]
{{- with .Values.persistence.storageClass }}
storageClassName: {{ . | quote }}
{{- end }}
resources:
  requests:
    storage: {{ .Values.persistence.size }}
{{- end }}
