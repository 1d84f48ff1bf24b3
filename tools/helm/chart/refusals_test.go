package chart

import (
	"fmt"
	"strings"
	"testing"

	"github.com/echomind/sync/tools/helm/chart/render"
)

// refuses renders the chart and returns helm's refusal.
func refuses(t *testing.T, args []string) string {
	t.Helper()
	out, err := render.Helm(t, nil, append([]string{"template", "e", render.Chart()}, args...)...)
	if err == nil {
		t.Errorf("helm accepts %v", args)
		return out
	}
	return err.Error()
}

func TestATypoOrAWrongKindOfValueIsRefusedWithItsPlace(t *testing.T) {
	t.Parallel()
	for set, wants := range map[string]string{
		"replica=3":                                        "'replica' not allowed",
		"scheduler.replica=3":                              "at '/scheduler': additional properties 'replica' not allowed",
		"scheduler.replicas=many":                          "at '/scheduler/replicas'",
		"scheduler.env.SCHEDULER_CLAIM_BACH=3":             "at '/scheduler/env': additional properties 'SCHEDULER_CLAIM_BACH' not allowed",
		"scheduler.env.SCHEDULER_CLAIM_BATCH=lots":         "at '/scheduler/env/SCHEDULER_CLAIM_BATCH'",
		"scheduler.env.FOREIGN_SYNC_TIMEOUT=6":             "at '/scheduler/env/FOREIGN_SYNC_TIMEOUT'",
		"scheduler.env.SCHEDULER_LEADER_ELECTION=raft":     "at '/scheduler/env/SCHEDULER_LEADER_ELECTION'",
		"scheduler.env.SCHEDULER_ENABLED=maybe":            "at '/scheduler/env/SCHEDULER_ENABLED'",
		"scheduler.autoscaling.by=cpu":                     "at '/scheduler': additional properties 'autoscaling' not allowed",
		"semantic.env.CHUNKER_MAX_TOKENS=3":                "at '/semantic/env': additional properties 'CHUNKER_MAX_TOKENS' not allowed",
		"semantic.env.HTTP_ADDR=:80":                       "'HTTP_ADDR' not allowed",
		"common.env.DATABASE_URL=postgres://h/d":           "at '/common/env': additional properties 'DATABASE_URL' not allowed",
		"common.env.LOG_LEVEL=loud":                        "at '/common/env/LOG_LEVEL'",
		"chunker.secretEnv.SECRETS_KEY=k":                  "at '/chunker/secretEnv': additional properties 'SECRETS_KEY' not allowed",
		"connector.env.SECRETS_KEY=k":                      "at '/connector/env': additional properties 'SECRETS_KEY' not allowed",
		"connector.autoscaling.by=memory":                  "value must be one of 'none', 'cpu', 'age'",
		"connector.antiAffinity=always":                    "at '/connector/antiAffinity'",
		"connector.resources.request.cpu=1":                "at '/connector/resources'",
		"api.autoscaling.by=age":                           "at '/api/autoscaling/by'",
		"api.port=80":                                      "at '/api/port'",
		"api.env.API_ADDR=:9":                              "'API_ADDR' not allowed",
		"api.env.SECRETS_KEY=k":                            "'SECRETS_KEY' not allowed",
		"api.env.API_TRUSTED_PROXIES=ingress":              "at '/api/env/API_TRUSTED_PROXIES'",
		"api.env.API_RATE=often":                           "at '/api/env/API_RATE'",
		"api.ingress.host=a":                               "at '/api/ingress': additional properties 'host' not allowed",
		"api.ingress.hosts[0]=https://a.example":           "at '/api/ingress/hosts/0'",
		"api.ingress.path=api":                             "at '/api/ingress/path'",
		"api.httpRoute.parentRefs[0].namespace=gateways":   "at '/api/httpRoute/parentRefs/0'",
		"networkPolicy.apiFrom[0].namespaces=ingress":      "at '/networkPolicy/apiFrom/0'",
		"image.digests.scheduler=latest":                   "at '/image/digests/scheduler'",
		"image.digests.schedular=sha256:00":                "at '/image/digests'",
		"networkPolicy.nats.to[0].ipblock.cidr=10.0.0.0/8": "at '/networkPolicy/nats/to/0'",
		"setup.streamsSchedule=hourly":                     "at '/setup/streamsSchedule'",
		"httpPort=80":                                      "at '/httpPort'",
		"nats.storag=1Gi":                                  "at '/nats': additional properties 'storag' not allowed",
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			if said := refuses(t, with(dev, set)); !strings.Contains(said, wants) {
				t.Errorf("it says %s\nnot %s", said, wants)
			}
		})
	}
}

func TestWhatCannotWorkIsRefusedWithTheFix(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		base  []string
		sets  []string
		wants string
	}{
		{nil, nil, "semantic: no secret: name an existing one with the key SEMANTIC_DATABASE_URL"},
		{nil, []string{"common.secretEnv.NATS_PASSWORD=x"}, "scheduler.secretEnv.DATABASE_URL is empty: set it"},
		{production, []string{"chunker.externalSecret=x", "externalSecrets.storeName=s"}, "chunker: its secrets come from existingSecret and externalSecret at once"},
		{production, []string{"common.secretEnv.DATABASE_URL=postgres://h/d"}, "production takes no secret from the values"},
		{production, []string{"common.secretEnv.DATABASE_URL=postgres://h/d"}, "scheduler: its secrets come from existingSecret and secretEnv at once"},
		{production, []string{"postgresql.enabled=true", "devPassword=x"}, "production with postgresql.enabled: that server is for trying things out"},
		{production, []string{"nats.enabled=true", "devPassword=x"}, "production with nats.enabled"},
		{nil, []string{"nats.enabled=true"}, "devPassword is empty"},
		{nil, []string{"common.externalSecret=x"}, "externalSecrets.storeName is empty"},
		{production, []string{"scheduler.env.SCHEDULER_LEADER_ELECTION=none"}, "scheduler.replicas=2 without an election"},
		{production, []string{"rbac.create=false"}, "name a service account that may get, update and create the Lease"},
		{production, []string{"networkPolicy.apiServer.to=null"}, "networkPolicy.apiServer.to is empty"},
		{production, []string{"networkPolicy.nats.to=null"}, "networkPolicy.nats.to is empty"},
		{production, []string{"semantic.env.QDRANT_URL=https://qdrant:6334"}, "networkPolicy.qdrant.to is empty"},
		{production, []string{"api.env.QDRANT_URL=https://qdrant:6334"}, "networkPolicy.qdrant.to is empty with api.env.QDRANT_URL"},
		{production, []string{"api.env.CONNECTOR_GOOGLE_CLIENT_ID=app"}, "networkPolicy.internet.ports.api is empty with an application"},
		{production, []string{"api.env.UPLOAD_URL=s3://files"}, "api.env.UPLOAD_URL and chunker.env.UPLOAD_URL are not the same"},
		{production, []string{"api.env.UPLOAD_URL=s3://files", "chunker.env.UPLOAD_URL=s3://files"}, "networkPolicy.uploads.to is empty with api.env.UPLOAD_URL"},
		{production, []string{"semantic.terminationGracePeriodSeconds=30"}, "semantic.terminationGracePeriodSeconds=30: must be at least 37"},
		{production, []string{"common.env.SHUTDOWN_GRACE_SECONDS=50", "common.terminationGracePeriodSeconds=61"}, "must be at least 62"},
		{production, []string{"semantic.pdb.minAvailable=2"}, "semantic.pdb.minAvailable=2 with 2 replicas: no node could ever be drained"},
		{production, []string{"semantic.pdb.maxUnavailable=0"}, "semantic.pdb.maxUnavailable=0"},
		{production, []string{"chunker.autoscaling.by=cpu", "chunker.autoscaling.minReplicas=9"}, "minReplicas=9 is above maxReplicas=8"},
		{production, []string{"chunker.autoscaling.by=age"}, "set keda.prometheusURL"},
		{production, []string{"chunker.env.CHUNKER_FILE_ROOTS=/srv/files"}, "no volume is mounted there"},
		{production, []string{"chunker.env.WORKER_LEASE_SECONDS=30"}, "WORKER_LEASE_SECONDS differs"},
		{production, []string{"chunker.natsFiles.creds.secret=s", "chunker.natsFiles.creds.key=k", "chunker.natsFiles.nkey.secret=s", "chunker.natsFiles.nkey.key=k"},
			"creds and nkey exclude each other"},
		{production, []string{"chunker.natsFiles.creds.secret=s", "chunker.natsFiles.creds.key=k", "chunker.env.NATS_USER=me"}, "beside natsFiles.creds or nkey"},
		{production, []string{"chunker.natsFiles.cert.secret=s", "chunker.natsFiles.cert.key=k"}, "cert and key belong together"},
		{production, []string{"api.ingress.hosts=null"}, "api.ingress.hosts is empty: name the host"},
		{production, []string{"api.ingress.tlsSecret="}, "api.ingress.tlsSecret is empty: tokens would travel in plain text"},
		{production, []string{"api.tlsElsewhere=true"}, "api.tlsElsewhere=true beside api.ingress.tlsSecret"},
		{production, []string{"api.env.API_TRUSTED_PROXIES=null"}, "api.ingress without api.env.API_TRUSTED_PROXIES"},
		{production, []string{`api.env.API_TRUSTED_PROXIES=10.1.0.0/16\, 0.0.0.0/0`}, "has 0.0.0.0/0, which is everybody"},
		{production, []string{"networkPolicy.apiFrom=null"}, "networkPolicy.apiFrom is empty with api.ingress"},
		{production, []string{"api.enabled=false"}, "api.ingress.enabled with api.enabled=false: nobody would answer"},
		{production, []string{"api.port=8080"}, "api.port=8080 is httpPort"},
		{production, []string{"api.env.SCHEDULER_LOST_GRACE_SECONDS=20"}, "api.env.SCHEDULER_LOST_GRACE_SECONDS is not the scheduler's"},
		{production, []string{"api.httpRoute.enabled=true", "api.httpRoute.hosts[0]=a.example"}, "api.httpRoute.parentRefs is empty: name the Gateway"},
		{production, []string{"api.httpRoute.enabled=true", "api.httpRoute.parentRefs[0].name=g", "api.httpRoute.parentRefs[0].sectionName=https"}, "api.httpRoute.hosts is empty"},
		{production, []string{"api.httpRoute.enabled=true", "api.httpRoute.hosts[0]=a.example", "api.httpRoute.parentRefs[0].name=g"},
			"api.httpRoute.parentRefs[0] names no listener: the route would be served without TLS too"},
		{dev, []string{"connector.secretEnv.SECRETS_KEY=k"}, "api.secretEnv.SECRETS_KEY is not connector.secretEnv.SECRETS_KEY"},
		{production, []string{"chunker.natsFiles.creds.key=k"}, "say in which secret, or which configMap"},
	} {
		t.Run(fmt.Sprint(c.sets), func(t *testing.T) {
			t.Parallel()
			if said := refuses(t, with(c.base, c.sets...)); !strings.Contains(said, c.wants) {
				t.Errorf("it says %s\nnot %s", said, c.wants)
			}
		})
	}
}

func TestAllProblemsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	said := refuses(t, with(production, "rbac.create=false", "semantic.pdb.maxUnavailable=0", "chunker.autoscaling.by=age"))
	for _, wants := range []string{"rbac.create=false", "semantic.pdb", "chunker.autoscaling"} {
		if !strings.Contains(said, wants) {
			t.Errorf("%q is missing in %s", wants, said)
		}
	}
}

func TestWhatLooksLikeItAndWorksIsAccepted(t *testing.T) {
	t.Parallel()
	for _, sets := range [][]string{
		{"scheduler.env.SCHEDULER_LEADER_ELECTION=none", "scheduler.replicas=1"},
		{"scheduler.env.SCHEDULER_LEADER_ELECTION=postgres", "rbac.create=false", "networkPolicy.apiServer.to=null"},
		{"rbac.create=false", "scheduler.serviceAccount.name=mine"},
		{"common.env.WORKER_LEASE_SECONDS=30"},
		{"chunker.env.CHUNKER_FILE_ROOTS=/srv/files/a", "chunker.extraVolumeMounts[0].name=files", "chunker.extraVolumeMounts[0].mountPath=/srv/files"},
		{"semantic.pdb.minAvailable=50%"}, {"semantic.pdb.minAvailable=1"}, {"connector.enabled=false"}, {"global.anything=1"},
		{"api.enabled=false", "api.ingress.enabled=false"}, {"api.ingress.tlsSecret=", "api.tlsElsewhere=true"},
		{"api.ingress.enabled=false", "api.env.API_TRUSTED_PROXIES=null", "networkPolicy.apiFrom=null"},
		{"scheduler.env.SCHEDULER_LOST_GRACE_SECONDS=20", "api.env.SCHEDULER_LOST_GRACE_SECONDS=20"},
		{"api.ingress.enabled=false", "api.httpRoute.enabled=true", "api.httpRoute.hosts[0]=*.a.example", "api.httpRoute.parentRefs[0].name=g", "api.httpRoute.parentRefs[0].port=443"},
	} {
		render.Template(t, with(production, sets...)...)
	}
}
