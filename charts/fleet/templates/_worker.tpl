{{/* A worker group: the nodes of one class in one domain. Takes a dict of root, domain, shape (and its name), class. */}}

{{- define "fleet.groupName" -}}
{{- $parts := list .class -}}
{{- range $level := (include "fleet.facts" .root | fromJson).levels -}}
{{- with get $.domain.levels $level -}}{{- $parts = append $parts (lower .) -}}{{- end -}}
{{- end -}}
{{- if .several -}}{{- $parts = append $parts .shapeName -}}{{- end -}}
{{- $name := join "-" $parts -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "domains: %q cannot be a worker group's name: use letters, digits and '-' in levels and names of shapes" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/* Labels of a group's Ray nodes, and of its pods: all that the arbiter knows a node by. */}}
{{- define "fleet.groupLabels" -}}
fleet/class: {{ .class }}
{{- range $level, $value := .domain.levels }}
fleet/{{ $level }}: {{ $value | quote }}
{{- end }}
{{- with .shape.flavor }}
fleet/flavor: {{ . | quote }}
{{- end }}
{{- with .shape.partition }}
fleet/partition: {{ . | quote }}
{{- end }}
{{- range $key, $value := .shape.labels }}
{{ $key }}: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* A Ray node's own labels, from its pod; Ray's word for its accelerator cannot be given as a label of a group. */}}
{{- define "fleet.nodeLabels" -}}
{{- $labels := dict "fleet/node" (ternary "$(POD_NAME)" "$(NODE_NAME)" (eq .root.Values.nodes.name "pod")) "fleet/pod" "$(POD_NAME)" -}}
{{- with .shape.accelerator -}}{{- $_ := set $labels "ray.io/accelerator-type" . -}}{{- end -}}
{{- toJson $labels -}}
{{- end -}}

{{- define "fleet.group" -}}
{{- $root := .root -}}
{{- $shape := .shape -}}
{{- $settings := get $root.Values.classes .class -}}
groupName: {{ include "fleet.groupName" . }}
replicas: {{ .replicas }}
minReplicas: 0
maxReplicas: {{ .most }}
{{- with .scale }}
scaleStrategy:
  {{- toYaml . | nindent 2 }}
{{- end }}
labels:
  {{- include "fleet.groupLabels" . | nindent 2 }}
rayStartParams: {}
resources:
  CPU: {{ $shape.rayCpus | default $shape.cpu | quote }}
  GPU: {{ $shape.gpus | quote }}
  {{- range $name, $count := $shape.resources }}
  {{ $name }}: {{ $count | quote }}
  {{- end }}
template:
  metadata:
    labels:
      {{- include "fleet.podLabels" $root | nindent 6 }}
    {{- $annotations := mergeOverwrite (dict) $root.Values.workers.podAnnotations $settings.podAnnotations }}
    {{- if eq .class "training" }}
    {{- $annotations = mergeOverwrite $annotations (include "fleet.optOuts" $root | fromYaml) }}
    {{- end }}
    {{- with $annotations }}
    annotations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  spec:
    priorityClassName: {{ $settings.priorityClass }}
    serviceAccountName: {{ $root.Release.Name }}-worker
    automountServiceAccountToken: false
    terminationGracePeriodSeconds: {{ include "fleet.grace" $root }}
    restartPolicy: Always
    securityContext:
      {{- include "fleet.podSecurity" $root | nindent 6 }}
    {{- include "fleet.pullSecrets" $root | indent 4 }}
    {{- include "fleet.place" . | indent 4 }}
    {{- if and (eq .class "training") $root.Values.waves.enabled .serving }}
    initContainers:
      - name: serving-first
        image: {{ include "fleet.image" $root }}
        imagePullPolicy: {{ $root.Values.image.pullPolicy }}
        command:
          - python3
          - -m
          - fleet_app.adapters.wave
          - --name={{ $root.Release.Name }}-serving
          - --count={{ div (add (mul .serving $root.Values.waves.percent) 99) 100 }}
          - --within={{ $root.Values.waves.seconds }}
        securityContext:
          {{- include "fleet.security" $root | nindent 10 }}
        resources:
          requests: {cpu: 10m, memory: 32Mi}
          limits: {memory: 128Mi}
    {{- end }}
    containers:
      - name: ray-worker
        image: {{ include "fleet.image" $root }}
        imagePullPolicy: {{ $root.Values.image.pullPolicy }}
        env:
          - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
          - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
          - {name: RAY_OVERRIDE_LABELS, value: {{ include "fleet.nodeLabels" . | squote }}}
          {{- include "fleet.env" $root | nindent 10 }}
          {{- with $settings.env }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
        ports:
          - {name: metrics, containerPort: 8080}
          {{- if eq .class "serving" }}
          - {name: serve, containerPort: 8000}
          {{- end }}
        {{- include "fleet.workerProbes" $root | nindent 8 }}
        {{- include "fleet.linger" $root | nindent 8 }}
        securityContext:
          {{- include "fleet.security" $root | nindent 10 }}
        resources:
          {{- $limits := dict "memory" $shape.memory -}}
          {{- with $shape.cpuLimit }}{{ $_ := set $limits "cpu" . }}{{ end -}}
          {{- with $shape.gpuResource }}{{ $_ := set $limits . ($shape.gpuCount | default $shape.gpus) }}{{ end -}}
          {{- $limits = mergeOverwrite $limits $root.Values.workers.limits }}
          requests:
            {{- toYaml (mergeOverwrite (deepCopy $limits) (dict "cpu" $shape.cpu)) | nindent 12 }}
          limits:
            {{- toYaml $limits | nindent 12 }}
        volumeMounts:
          {{- include "fleet.mounts" $root | nindent 10 }}
          {{- with $root.Values.workers.volumeMounts }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
    volumes:
      - name: shared-mem
        emptyDir: {medium: Memory{{ with $shape.sharedMemory | default $root.Values.workers.sharedMemory }}, sizeLimit: {{ . }}{{ end }}}
      {{- include "fleet.volumes" $root | nindent 6 }}
      {{- with $root.Values.workers.volumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{- end -}}

{{/* Where a worker goes: by label and taint, and never beside a pod of the other class. */}}
{{- define "fleet.place" -}}
{{- $nodes := .root.Values.nodes -}}
{{- $selector := dict -}}
{{- if $nodes.select -}}
{{- $_ := set $selector "fleet/class" .class -}}
{{- range $level, $value := .domain.levels -}}
{{- $_ := set $selector (get $nodes.levelLabels $level | default (printf "fleet/%s" $level)) $value -}}
{{- end -}}
{{- end -}}
{{- with mergeOverwrite $selector (.shape.nodeSelector | default dict) }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
tolerations:
  - {key: fleet/class, operator: Equal, value: {{ .class }}, effect: NoSchedule}
  {{- with concat $nodes.tolerations (.shape.tolerations | default list) }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $other := ternary "training" "serving" (eq .class "serving") }}
{{- if or $nodes.separate (not $nodes.select) }}
affinity:
  {{- if not $nodes.select }}
  # Whatever it tolerates: a pending pod of serving would preempt a gang's.
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms: [{matchExpressions: [{key: fleet/class, operator: NotIn, values: [{{ $other }}]}]}]
  {{- end }}
  {{- if $nodes.separate }}
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            fleet/cluster: {{ .root.Release.Name }}
            fleet/class: {{ $other }}
  {{- end }}
{{- end }}
{{- end -}}
