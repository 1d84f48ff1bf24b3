// Package leastprivilege tests that the services work with the NATS users of helm/echomind/files/nats.conf, and that
// those users may do nothing else.
package leastprivilege
