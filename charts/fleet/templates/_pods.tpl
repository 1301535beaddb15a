{{/* What pods have in common. Everything here is what the restricted Pod Security Standard wants. */}}

{{- define "fleet.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.user }}
runAsGroup: {{ .Values.user }}
fsGroup: {{ .Values.user }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "fleet.security" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "fleet.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
Where the head goes, and what serves it: never on the fleet's GPUs if it can be helped, and whatever it tolerates never
on training's nodes, where it would preempt a gang's pod.
*/}}
{{- define "fleet.headPlace" }}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms: [{matchExpressions: [{key: fleet/class, operator: NotIn, values: [training]}]}]
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        preference: {matchExpressions: [{key: fleet/class, operator: DoesNotExist}]}
{{- with .Values.head.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.head.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Cluster-wide controllers leave these pods alone: names.GANG_ANNOTATIONS. */}}
{{- define "fleet.optOuts" -}}
cluster-autoscaler.kubernetes.io/safe-to-evict: "false"
descheduler.alpha.kubernetes.io/prefer-no-eviction: "true"
karpenter.sh/do-not-disrupt: "true"
{{- end -}}

{{/* Environment of every Ray container. */}}
{{- define "fleet.env" -}}
- {name: RAY_USAGE_STATS_ENABLED, value: "0"}
{{- if .Values.auth.ray }}
- {name: RAY_AUTH_MODE, value: token}
- name: RAY_AUTH_TOKEN
  valueFrom: {secretKeyRef: {name: {{ include "fleet.tokenSecret" . }}, key: token}}
{{- else }}
- {name: RAY_AUTH_MODE, value: disabled}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Where every Ray container may write, and what all share. */}}
{{- define "fleet.mounts" -}}
- {name: shared-mem, mountPath: /dev/shm}
- {name: scratch, mountPath: /tmp}
{{- if .Values.checkpoints.enabled }}
- {name: checkpoints, mountPath: /var/lib/fleet/checkpoints}
{{- end }}
{{- if .Values.weights.enabled }}
- {name: weights, mountPath: /var/cache/fleet}
{{- end }}
{{- end -}}

{{- define "fleet.volumes" -}}
- name: scratch
  emptyDir: {{ if .Values.workers.scratch }}{sizeLimit: {{ .Values.workers.scratch }}}{{ else }}{}{{ end }}
{{- if .Values.checkpoints.enabled }}
- name: checkpoints
  persistentVolumeClaim: {claimName: {{ .Values.checkpoints.existingClaim | default (printf "%s-checkpoints" .Release.Name) }}}
{{- end }}
{{- if .Values.weights.enabled }}
- name: weights
{{- if or .Values.weights.existingClaim .Values.weights.size }}
  persistentVolumeClaim: {claimName: {{ .Values.weights.existingClaim | default (printf "%s-weights" .Release.Name) }}}
{{- else }}
  emptyDir: {}
{{- end }}
{{- end }}
{{- end -}}

{{/*
A raylet's health, as KubeRay itself asks for it (ray-operator v1.5.0, initLivenessAndReadinessProbe). KubeRay gives a
liveness probe to a Ray container that has none: one that kills after ten minutes without an answer. This one has a day
of patience; a raylet that ends takes its container along anyway.
*/}}
{{- define "fleet.workerProbes" -}}
livenessProbe:
  exec: {command: [bash, -c, "wget --tries 1 -T 20 -q -O- http://localhost:52365/api/local_raylet_healthz | grep success"]}
  initialDelaySeconds: 60
  periodSeconds: 60
  timeoutSeconds: 30
  failureThreshold: 1440
readinessProbe:
  exec: {command: [bash, -c, "wget --tries 1 -T 5 -q -O- http://localhost:52365/api/local_raylet_healthz | grep success"]}
  initialDelaySeconds: 3
  periodSeconds: 5
  timeoutSeconds: 10
  failureThreshold: 12
{{- end -}}

{{/*
What makes the grace of a pod mean something: it does not end while a job or a replica of the fleet lives in it. The
arbiter sees that the pod has to go, and drains what is there. Brackets, so that the shell does not find itself. Where
there has been no head for two minutes nobody will: the whole cluster goes. KubeRay says where the head is.
*/}}
{{- define "fleet.linger" -}}
lifecycle:
  preStop:
    exec:
      command:
        - sh
        - -c
        - >-
          seen=$(date +%s);
          while [ $(($(date +%s) - seen)) -lt 120 ] &&
          { grep -qsa 'FLEET_[A]TTEMPT=' /proc/[0-9]*/environ || grep -qsa 'ray::[S]erveReplica' /proc/[0-9]*/cmdline; };
          do timeout 2 bash -c ': < /dev/tcp/$FQ_RAY_IP/6379' 2> /dev/null && seen=$(date +%s);
          sleep 1; done
{{- end -}}
