// Package election tries the leader election by a Lease against a real kube-apiserver and a real etcd: a fake clientset
// neither enforces resource versions nor knows RBAC, and cannot be killed or frozen.
//
// `make test-kube` builds the servers and runs the tests. What is tried at once is what is shipped: the durations are the
// defaults.
package election
