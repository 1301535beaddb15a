{{- define "fleet.ports" -}}
{{- range . }}
- {protocol: TCP, port: {{ . }}}
{{- end }}
{{- end -}}

{{/* One NetworkPolicy. It rules over the directions that it is given; an empty list closes one. */}}
{{- define "fleet.network" }}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .root.Release.Name }}-{{ .name }}
  labels:
    {{- include "fleet.labels" .root | nindent 4 }}
spec:
  podSelector:
    {{- toYaml .pods | nindent 4 }}
  policyTypes:
    {{- if hasKey . "ingress" }}
    - Ingress
    {{- end }}
    {{- if hasKey . "egress" }}
    - Egress
    {{- end }}
  {{- with .ingress }}
  ingress:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .egress }}
  egress:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
