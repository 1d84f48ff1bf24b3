{{/* (root, name, c) → what every pod of ours has in common. `restricted` pod security asks for no less. */}}
{{- define "echomind.podDefaults" -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
enableServiceLinks: false
securityContext:
  {{- toYaml .c.podSecurityContext | nindent 2 }}
{{- with .c.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .c.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .c.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .c.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .c.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "echomind.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* (root, name, c, variables) → a container's environment. Of a Secret each container reads the variables of its own
service and no others, whatever else lies in it. */}}
{{- define "echomind.containerEnv" -}}
envFrom:
  - configMapRef:
      name: {{ include "echomind.fullname" .root }}-{{ .name }}
env:
  {{- $secret := include "echomind.secretName" . }}
  {{- range $variable := index (.root.Files.Get "files/secret-variables.yaml" | fromYaml) (include "echomind.user" .) }}
  - name: {{ $variable }}
    valueFrom:
      secretKeyRef:
        name: {{ $secret }}
        key: {{ include "echomind.secretKey" (dict "name" $.name "variable" $variable) }}
        {{- if ne $variable "DATABASE_URL" }}
        optional: true
        {{- end }}
  {{- end }}
  {{- with .c.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* Annotations that change with the configuration, so that a change of it rolls the pods. */}}
{{- define "echomind.checksums" -}}
checksum/config: {{ include "echomind.environment" . | sha256sum }}
checksum/secret: {{ include "echomind.secrets" . | sha256sum }}
{{- with .c.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* (c) → the volumes: a place for temporary files, NATS's files, and what the values add. */}}
{{- define "echomind.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: {{ .c.tmpSize }}
{{- if include "echomind.natsSources" . }}
- name: nats
  projected:
    defaultMode: 0440
    sources:
      {{- include "echomind.natsSources" . | nindent 6 }}
{{- end }}
{{- with .c.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "echomind.natsSources" -}}
{{- range $what, $variable := include "echomind.natsFileVariables" . | fromYaml -}}
{{- with index $.c.natsFiles $what -}}
{{- if .key }}
- {{ ternary "configMap" "secret" (not (empty .configMap)) }}:
    name: {{ .configMap | default .secret }}
    items:
      - key: {{ .key }}
        path: {{ $what }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "echomind.volumeMounts" -}}
- name: tmp
  mountPath: /tmp
{{- if include "echomind.natsSources" . }}
- name: nats
  mountPath: /etc/echomind/nats
  readOnly: true
{{- end }}
{{- with .c.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
