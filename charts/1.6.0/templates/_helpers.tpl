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

{{/*
Stops the render when verification is configured, but the definition in the cluster lacks the field:
the API server would drop it in silence. Nothing is looked up without a cluster, and on a first
install Helm has put the definition of this chart there before.
*/}}
{{- define "k8s-aibom.verificationIsServed" -}}
{{- if .Values.config.verification }}
{{- $name := "aibomcontrollerconfigs.aibom.k8saibom.dev" }}
{{- $crd := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name }}
{{- if $crd }}
{{- $served := false }}
{{- range $crd.spec.versions }}
{{- if and (eq .name "v1beta1") (dig "schema" "openAPIV3Schema" "properties" "spec" "properties" "verification" nil .) }}
{{- $served = true }}
{{- end }}
{{- end }}
{{- if not $served }}
{{- fail (printf "config.verification is set, but v1beta1 of the installed CustomResourceDefinition %s does not have spec.verification. Apply the definitions of this chart first: helm show crds CHART --version %s | kubectl apply --server-side --force-conflicts --field-manager=k8s-aibom-crds -f -" $name .Chart.Version) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
