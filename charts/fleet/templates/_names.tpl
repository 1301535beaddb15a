{{/* What things are called: as fleet_app/render/names.py says, which tests/chart compares. */}}

{{- define "fleet.check" -}}
{{- if gt (len .Release.Name) 47 -}}
{{- fail (printf "the release's name %q is the RayCluster's, and has more than 47 characters" .Release.Name) -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" .Release.Name) -}}
{{- fail (printf "the release's name %q is the RayCluster's: it must begin with a letter, and have no dots" .Release.Name) -}}
{{- end -}}
{{- $classes := (include "fleet.facts" . | fromJson).classes -}}
{{- range $class, $settings := .Values.classes -}}
{{- if not (hasKey $classes $settings.priorityClass) -}}
{{- fail (printf "classes.%s.priorityClass: the policy has no class %q; it has %s" $class $settings.priorityClass (keys $classes | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- if eq (dig "upgradeStrategy" "type" "None" .Values.rayClusterSpec) "Recreate" -}}
{{- fail "rayClusterSpec.upgradeStrategy: with Recreate KubeRay deletes all pods, those of gangs too, whenever a template changes: leave it out" -}}
{{- end -}}
{{- if and .Values.auth.ray (not .Values.auth.enabled) -}}
{{- fail "auth.ray: Ray can only ask for the token that there is: set auth.enabled" -}}
{{- end -}}
{{- end -}}

{{- define "fleet.policy" -}}
{{- required "policy: is empty: give one with --set-file policy=fleet.yaml" .Values.policy -}}
{{- end -}}

{{/* What of the policy the chart needs, what it leaves out as fleet_app/policy/schema.py fills it in. As JSON. */}}
{{- define "fleet.facts" -}}
{{- $policy := include "fleet.policy" . | fromYaml -}}
{{- if hasKey $policy "Error" -}}
{{- fail (printf "policy: is no YAML: %s" $policy.Error) -}}
{{- end -}}
{{- $standard := dict "serving-production" (dict "value" 100000) "training-committed" (dict "value" 50000) "training-backfill" (dict "value" 1000) -}}
{{- $drain := $policy.drain | default dict -}}
{{- toJson (dict
  "classes" ($policy.classes | default $standard)
  "service" (($policy.default_class | default dict).service | default "serving-production")
  "levels" (($policy.topology | default dict).levels | default (list "spine" "leaf"))
  "graces" (list ($drain.grace | default "120s") ($drain.longest_grace | default "10m"))
  "kubernetes" ($policy.kubernetes | default dict)
) -}}
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
{{- $longest := 0 -}}
{{- range (include "fleet.facts" . | fromJson).graces -}}
{{- $longest = max $longest (include "fleet.seconds" . | int64) -}}
{{- end -}}
{{- $given := .Values.workers.terminationGraceSeconds -}}
{{- if and $given (le ($given | int64) $longest) -}}
{{- fail (printf "workers.terminationGraceSeconds: %d is not more than the policy's longest grace of %d s: pods would be killed in the middle of a checkpoint" ($given | int64) $longest) -}}
{{- end -}}
{{- $given | default (add $longest 60) -}}
{{- end -}}
