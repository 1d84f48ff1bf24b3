{{- define "echomind.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* The services, in the order data flows. */}}
{{- define "echomind.services" -}}
scheduler connector chunker semantic api
{{- end }}

{{/* What the API tells of the scheduler's settings, to who asks why a connector does not run. */}}
{{- define "echomind.toldOfScheduler" -}}
SCHEDULER_MAX_CONCURRENT_SYNCS SCHEDULER_OWNER_SHARE_PERCENT SCHEDULER_CHECK_INTERVAL_SECONDS SCHEDULER_WATCH_INTERVAL_SECONDS SCHEDULER_LOST_GRACE_SECONDS FOREIGN_SYNC_TIMEOUT
{{- end }}

{{/* All that have a configuration of their own: the services, the setup job, and the streams' repair. */}}
{{- define "echomind.configured" -}}
{{- $names := list -}}
{{- range splitList " " (include "echomind.services" .) -}}
{{- if (index $.Values .).enabled }}{{ $names = append $names . }}{{ end -}}
{{- end -}}
{{- if .Values.setup.enabled }}{{ $names = append $names "setup" }}{{ end -}}
{{- if .Values.setup.streamsSchedule }}{{ $names = append $names "streams" }}{{ end -}}
{{- join " " $names -}}
{{- end }}

{{/* Whether the setup job comes before everything else. It cannot where this release brings the servers itself. */}}
{{- define "echomind.setupIsHook" -}}
{{- if not (or .Values.postgresql.enabled .Values.nats.enabled) }}true{{ end -}}
{{- end }}

{{/* (root, name) → the values of a component, as YAML: those of `common` under its own. A map is merged key by key,
anything else is replaced; sprig's merge would not let false or 0 replace anything. */}}
{{- define "echomind.component" -}}
{{- $own := index .root.Values (ternary "setup" .name (eq .name "streams")) -}}
{{- $merged := deepCopy .root.Values.common -}}
{{- range $key, $value := $own -}}
  {{- if and (kindIs "map" $value) (kindIs "map" (index $merged $key)) -}}
    {{- $inner := index $merged $key -}}
    {{- range $k, $v := $value }}{{ $_ := set $inner $k $v }}{{ end -}}
  {{- else -}}
    {{- $_ := set $merged $key $value -}}
  {{- end -}}
{{- end -}}
{{- toYaml $merged -}}
{{- end }}

{{- define "echomind.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "echomind.labels" -}}
{{ include "echomind.selector" . }}
app.kubernetes.io/part-of: echomind
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* (root, name) → name, labels and, where it belongs to the setup hook, the hook's annotations. What the job reads is made
before it and goes after it. */}}
{{- define "echomind.metadata" -}}
name: {{ include "echomind.fullname" .root }}-{{ .name }}
labels:
  {{- include "echomind.labels" . | nindent 2 }}
{{- if and (eq .name "setup") (include "echomind.setupIsHook" .root) }}
annotations:
  helm.sh/hook: pre-install,pre-upgrade
  helm.sh/hook-weight: {{ .weight | default "-10" | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
{{- end }}

{{/* (root, image) → an image. */}}
{{- define "echomind.image" -}}
{{- $i := .root.Values.image -}}
{{- $tag := $i.tag | default .root.Chart.AppVersion -}}
{{- $digest := index $i.digests .image -}}
{{- if $i.registry }}{{ $i.registry }}/{{ end }}{{ $i.repository }}/{{ .image }}{{ if $digest }}@{{ $digest }}{{ else }}:{{ $tag }}{{ end -}}
{{- end }}

{{/* A value as an environment holds it: Helm hands over every number as a float. */}}
{{- define "echomind.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ printf "%.0f" . }}{{ else }}{{ . }}{{ end -}}
{{- end }}

{{/* (root, name) → the user of the servers that a component is. */}}
{{- define "echomind.user" -}}
{{- ternary "setup" .name (eq .name "streams") -}}
{{- end }}

{{/* (root, name, variable) → under which key of a Secret a variable is found. Each component logs in to PostgreSQL as a user of
its own, so that its URLs have keys of their own: one Secret may then serve all. */}}
{{- define "echomind.secretKey" -}}
{{- if has .variable (list "DATABASE_URL" "DATABASE_DIRECT_URL") }}{{ upper (include "echomind.user" .) }}_{{ end }}{{ .variable }}
{{- end }}

{{/* The password of a user of the servers that this release brings. */}}
{{- define "echomind.devPassword" -}}
{{- printf "%s/%s" .root.Values.devPassword .user | sha256sum | trunc 40 | printf "p%s" -}}
{{- end }}

{{/* (root, name, c) → what the environment holds beside secrets, as YAML. */}}
{{- define "echomind.environment" -}}
{{- $user := include "echomind.user" . -}}
{{- $env := dict "HTTP_ADDR" (printf ":%v" (include "echomind.port" .root)) "NATS_INBOX_PREFIX" (printf "_INBOX_%s" $user) -}}
{{- $files := .c.natsFiles -}}
{{- range $what, $variable := include "echomind.natsFileVariables" . | fromYaml -}}
  {{- if (index $files $what).key }}{{ $_ := set $env $variable (printf "/etc/echomind/nats/%s" $what) }}{{ end -}}
{{- end -}}
{{- if not (or $files.creds.key $files.nkey.key) -}}
  {{- $_ := set $env "NATS_USER" $user -}}
{{- end -}}
{{- if .root.Values.nats.enabled }}{{ $_ := set $env "NATS_URL" (printf "nats://%s-nats:4222" .root.Release.Name) }}{{ end -}}
{{- if eq .name "scheduler" }}{{ $_ := set $env "SCHEDULER_LEASE_NAME" (printf "%s-scheduler" (include "echomind.fullname" .root)) }}{{ end -}}
{{- if eq .name "api" -}}
  {{- $_ := set $env "API_ADDR" (printf ":%v" (include "echomind.text" .c.port)) -}}
  {{- $scheduler := (include "echomind.component" (dict "root" .root "name" "scheduler") | fromYaml).env -}}
  {{- range $key := splitList " " (include "echomind.toldOfScheduler" .) -}}
    {{- if not (kindIs "invalid" (index $scheduler $key)) }}{{ $_ := set $env $key (include "echomind.text" (index $scheduler $key)) }}{{ end -}}
  {{- end -}}
{{- end -}}
{{- range $key, $value := .c.env -}}
  {{- if kindIs "invalid" $value }}{{ $_ := unset $env $key }}{{ else }}{{ $_ := set $env $key (include "echomind.text" $value) }}{{ end -}}
{{- end -}}
{{- toYaml $env -}}
{{- end }}

{{- define "echomind.natsFileVariables" -}}
creds: NATS_CREDS_FILE
nkey: NATS_NKEY_FILE
ca: NATS_CA_FILE
cert: NATS_CERT_FILE
key: NATS_KEY_FILE
{{- end }}

{{/* (root, name, c) → what the chart's own Secret holds, as YAML, by the variables' names. Setup logs in to PostgreSQL as the
owner of the schema, a service as its own user. */}}
{{- define "echomind.secrets" -}}
{{- $secrets := dict -}}
{{- $user := include "echomind.user" . -}}
{{- if .root.Values.postgresql.enabled -}}
  {{- $login := ternary "echomind" $user (eq $user "setup") -}}
  {{- $password := include "echomind.devPassword" (dict "root" .root "user" (printf "postgresql/%s" $login)) -}}
  {{- $_ := set $secrets "DATABASE_URL" (printf "postgres://%s:%s@%s-postgresql:5432/echomind?sslmode=disable" $login $password .root.Release.Name) -}}
{{- end -}}
{{- if .root.Values.nats.enabled -}}
  {{- $_ := set $secrets "NATS_PASSWORD" (include "echomind.devPassword" (dict "root" .root "user" $user)) -}}
{{- end -}}
{{- range $key, $value := .c.secretEnv }}{{ if $value }}{{ $_ := set $secrets $key $value }}{{ end }}{{ end -}}
{{- toYaml $secrets -}}
{{- end }}

{{- define "echomind.secretName" -}}
{{- .c.existingSecret | default (printf "%s-%s" (include "echomind.fullname" .root) .name) -}}
{{- end }}

{{- define "echomind.port" -}}
{{- include "echomind.text" .Values.httpPort -}}
{{- end }}

{{/* (root, name, c) → how long a clean stop may take altogether: the sleep before it, the service's grace, and 10 s to close. */}}
{{- define "echomind.termination" -}}
{{- $env := include "echomind.environment" . | fromYaml -}}
{{- $least := add (int $env.SHUTDOWN_GRACE_SECONDS) (int .c.preStopSeconds) 10 -}}
{{- .c.terminationGracePeriodSeconds | default $least -}}
{{- end }}
