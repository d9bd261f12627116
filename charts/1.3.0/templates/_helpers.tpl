{{/* Name of the chart in labels. */}}
{{- define "k8s-aibom.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Name of all objects: the name of the release, with the chart's appended unless it is part of it. */}}
{{- define "k8s-aibom.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) }}
{{- default $full .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Labels by which the Deployment finds its pods. They are the same in every version. */}}
{{- define "k8s-aibom.selectorLabels" -}}
app.kubernetes.io/name: {{ include "k8s-aibom.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of all objects. */}}
{{- define "k8s-aibom.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "k8s-aibom.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* Name of the service account. */}}
{{- define "k8s-aibom.serviceAccountName" -}}
{{- $none := .Values.serviceAccount.create | ternary (include "k8s-aibom.fullname" .) "default" }}
{{- default $none .Values.serviceAccount.name }}
{{- end }}

{{/* Reference of the image: by digest if there is one, else by tag. */}}
{{- define "k8s-aibom.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}
