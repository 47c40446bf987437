{{- define "cairn.selector" -}}
app.kubernetes.io/name: cairn
app.kubernetes.io/component: engine
{{- end }}
{{- define "cairn.labels" -}}
{{ include "cairn.selector" . }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- define "cairn.image" -}}
{{- if and .Values.image.tag .Values.image.digest }}{{ fail "image: give tag or digest, not both" }}{{ end -}}
{{- .Values.image.repository }}{{ with .Values.image.tag }}:{{ . }}{{ end }}{{ with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end }}
{{- define "cairn.identity" -}}
{{- $i := .Values.identity }}
{{- $n := add (ternary 1 0 (ne $i.aws.roleArn "")) (ternary 1 0 (ne $i.gcp.serviceAccount "")) (ternary 1 0 (ne $i.azure.clientId "")) }}
{{- if gt (int $n) 1 }}{{ fail "identity: give one of aws, gcp and azure" }}{{ end }}
{{- with $i.aws.roleArn }}
eks.amazonaws.com/role-arn: {{ . | quote }}
{{- end }}
{{- with $i.gcp.serviceAccount }}
iam.gke.io/gcp-service-account: {{ . | quote }}
{{- end }}
{{- with $i.azure.clientId }}
azure.workload.identity/client-id: {{ . | quote }}
{{- end }}
{{- with $i.azure.tenantId }}
azure.workload.identity/tenant-id: {{ . | quote }}
{{- end }}
{{- end }}
{{- define "cairn.lease" -}}
{{- dig "serve" "lease" "cairn" .Values.config }}
{{- end }}
