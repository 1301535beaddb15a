{{/* What things are called: as fleet_app/render/names.py says, which tests/chart compares. */}}

{{- define "fleet.check" -}}
{{- if gt (len .Release.Name) 47 -}}
{{- fail (printf "the release's name %q is the RayCluster's, and has more than 47 characters" .Release.Name) -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" .Release.Name) -}}
{{- fail (printf "the release's name %q is the RayCluster's: it must begin with a letter, and have no dots" .Release.Name) -}}
{{- end -}}
{{- $policy := include "fleet.policy" . | fromYaml -}}
{{- if hasKey $policy "Error" -}}
{{- fail (printf "policy: is no YAML: %s" $policy.Error) -}}
{{- end -}}
{{- range $class, $settings := .Values.classes -}}
{{- if not (hasKey $policy.classes $settings.priorityClass) -}}
{{- fail (printf "classes.%s.priorityClass: the policy has no class %q; it has %s" $class $settings.priorityClass (keys $policy.classes | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.auth.ray (not .Values.auth.enabled) -}}
{{- fail "auth.ray: Ray can only ask for the token that there is: set auth.enabled" -}}
{{- end -}}
{{- end -}}

{{- define "fleet.policy" -}}
{{- required "policy: is empty: give one with --set-file policy=fleet.yaml" .Values.policy -}}
{{- end -}}

{{- define "fleet.labels" -}}
app.kubernetes.io/name: fleet
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
fleet/cluster: {{ .Release.Name }}
{{- end -}}

{{/* Labels of pods: those that stay the same from chart to chart, since running pods are not replaced. */}}
{{- define "fleet.podLabels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
fleet/cluster: {{ .Release.Name }}
{{- end -}}

{{- define "fleet.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "fleet.tokenSecret" -}}
{{ .Values.auth.existingSecret | default (printf "%s-token" .Release.Name) }}
{{- end -}}

{{/* Seconds of a duration such as 1h30m, as a policy writes it; part of a second counts as one. */}}
{{- define "fleet.seconds" -}}
{{- $size := dict "d" 86400 "h" 3600 "m" 60 "s" 1 -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9.]+(ms|[dhms])" . -1 -}}
{{- $unit := regexFind "(ms|[dhms])$" . -}}
{{- if eq $unit "ms" -}}
{{- $sum = add $sum 1 -}}
{{- else -}}
{{- $sum = add $sum (ceil (mulf (regexFind "^[0-9.]+" . | float64) (get $size $unit)) | int64) -}}
{{- end -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* How long a worker may take to end: longer than the longest drain that the policy allows. */}}
{{- define "fleet.grace" -}}
{{- $drain := (include "fleet.policy" . | fromYaml).drain | default dict -}}
{{- $longest := max (include "fleet.seconds" ($drain.grace | default "120s") | int64) (include "fleet.seconds" ($drain.longest_grace | default "10m") | int64) -}}
{{- $given := .Values.workers.terminationGraceSeconds -}}
{{- if and $given (le ($given | int64) $longest) -}}
{{- fail (printf "workers.terminationGraceSeconds: %d is not more than the policy's longest grace of %d s: pods would be killed in the middle of a checkpoint" ($given | int64) $longest) -}}
{{- end -}}
{{- $given | default (add $longest 60) -}}
{{- end -}}
