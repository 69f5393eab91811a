{{- define "controller.namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}
{{- define "controller.image" -}}
{{ .Values.controller.image.repository }}:{{ .Values.controller.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- define "controller.selector" -}}
app.kubernetes.io/name: opensandbox-controller
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "controller.labels" -}}
{{ include "controller.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: opensandbox
{{- end }}
