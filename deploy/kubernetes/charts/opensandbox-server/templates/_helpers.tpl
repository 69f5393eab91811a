{{- define "server.namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}
{{- define "server.image" -}}
{{ .Values.server.image.repository }}:{{ .Values.server.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- define "server.selector" -}}
app.kubernetes.io/name: opensandbox-server
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "gateway.selector" -}}
app.kubernetes.io/name: opensandbox-ingress-gateway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- /* The whole file. */}}
{{- define "server.config" -}}
{{ .Values.configToml }}
{{- with .Values.server.gateway }}
{{- if .enabled }}

[ingress]
mode = "gateway"

[ingress.gateway]
address = {{ required "server.gateway.host is needed" .host | quote }}

[ingress.gateway.route]
mode = {{ .gatewayRouteMode | quote }}
{{- if .secureAccess.keys }}

[ingress.secure_access]
active_key = {{ required "server.gateway.secureAccess.activeKey is needed" .secureAccess.activeKey | quote }}
keys = [
{{- range .secureAccess.keys }}
  { key_id = {{ .key_id | quote }}, key = {{ .key | quote }} },
{{- end }}
]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- define "server.labels" -}}
{{ include "server.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: opensandbox
{{- end }}
