// Package cluster tries the chart on a real kube-apiserver with a real etcd: `make test-kube`. Nothing runs its pods there.
package cluster
