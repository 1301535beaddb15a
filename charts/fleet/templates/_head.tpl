{{/* The head's pod: Ray's head, in which the arbiter's actor runs, and beside it what attends to the fleet. */}}

{{- define "fleet.head" -}}
metadata:
  labels:
    {{- include "fleet.podLabels" . | nindent 4 }}
  annotations:
    {{- include "fleet.optOuts" . | nindent 4 }}
spec:
  priorityClassName: {{ .Values.head.priorityClass }}
  serviceAccountName: {{ .Release.Name }}-arbiter
  terminationGracePeriodSeconds: 30
  restartPolicy: Always
  securityContext:
    {{- include "fleet.podSecurity" . | nindent 4 }}
  {{- include "fleet.pullSecrets" . | indent 2 }}
  {{- include "fleet.headPlace" . | indent 2 }}
  containers:
    - name: ray-head
      image: {{ include "fleet.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      env:
        - {name: FLEET_HOME, value: /var/lib/fleet}
        - {name: FLEET_KUBE_CLUSTER, value: {{ .Release.Name }}}
        - {name: FLEET_KUBE_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        # A Serve replica of the fleet takes a group that stands ready for it (docs/adr/0002).
        - {name: RAY_SERVE_CONTROLLER_CALLBACK_IMPORT_PATH, value: "fleet_app.adapters.serve_groups:install"}
        {{- include "fleet.env" . | nindent 8 }}
        {{- with .Values.head.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: gcs-server, containerPort: 6379}
        # KubeRay speaks to the port of this name: RayJobs come to the gateway, and so to the arbiter.
        - {name: dashboard, containerPort: 8090}
        - {name: ray-dashboard, containerPort: 8265}
        - {name: metrics, containerPort: 8080}
        - {name: serve, containerPort: 8000}
      securityContext:
        {{- include "fleet.security" . | nindent 8 }}
      resources:
        {{- toYaml .Values.head.resources | nindent 8 }}
      volumeMounts:
        - {name: home, mountPath: /var/lib/fleet}
        {{- include "fleet.mounts" . | nindent 8 }}
        {{- include "fleet.tokenMount" . | indent 8 }}
    - name: attend
      image: {{ include "fleet.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command:
        - python3
        - -m
        - fleet_app.adapters.attend
        - --name={{ .Release.Name }}
        - --policy=/etc/fleet/policy/fleet.yaml
        - --serve=/etc/fleet/serve/serve.yaml
        {{- if .Values.auth.enabled }}
        - --token=/etc/fleet/token/token
        {{- end }}
      env:
        - {name: FLEET_HOME, value: /var/lib/fleet}
        - {name: FLEET_KUBE_CLUSTER, value: {{ .Release.Name }}}
        - {name: FLEET_KUBE_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        {{- include "fleet.env" . | nindent 8 }}
      securityContext:
        {{- include "fleet.security" . | nindent 8 }}
      resources:
        {{- toYaml .Values.head.attendResources | nindent 8 }}
      volumeMounts:
        - {name: home, mountPath: /var/lib/fleet}
        - {name: attend-scratch, mountPath: /tmp}
        - {name: policy, mountPath: /etc/fleet/policy, readOnly: true}
        - {name: serve, mountPath: /etc/fleet/serve, readOnly: true}
        {{- include "fleet.tokenMount" . | indent 8 }}
  volumes:
    - name: shared-mem
      emptyDir: {medium: Memory{{ with .Values.head.sharedMemory }}, sizeLimit: {{ . }}{{ end }}}
    - name: home
      {{- if .Values.journal.enabled }}
      persistentVolumeClaim: {claimName: {{ .Values.journal.existingClaim | default (printf "%s-journal" .Release.Name) }}}
      {{- else }}
      emptyDir: {}
      {{- end }}
    - name: policy
      configMap: {name: {{ .Release.Name }}-policy}
    - name: serve
      configMap: {name: {{ .Release.Name }}-serve}
    {{- if .Values.auth.enabled }}
    - name: token
      secret: {secretName: {{ include "fleet.tokenSecret" . }}}
    {{- end }}
    - name: attend-scratch
      emptyDir: {}
    {{- include "fleet.volumes" . | nindent 4 }}
{{- end -}}

{{- define "fleet.tokenMount" -}}
{{- if .Values.auth.enabled }}
- {name: token, mountPath: /etc/fleet/token, readOnly: true}
{{- end }}
{{- end -}}
