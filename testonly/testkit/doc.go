// Package testkit gives tests real servers: a Postgres database per test, a nats-server per test, and, for tests that
// break things, a Postgres server of their own.
//
// One Postgres cluster serves a whole run of `go test`, all its test binaries. Its owner is a supervisor: the first
// test binary that needs one starts itself again under another name. The supervisor lives as long as `go test` or
// any test binary that uses it, and then stops the server and removes the run's folder, whatever killed them:
//
//	go test ──▶ test binary A ──┐ shared lock on <run>/users, given back by the kernel at the end of the process
//	      └───▶ test binary B ──┤
//	                            └─ supervisor ──▶ postgres       <run> = <temp>/echomind-test-<uid>-<pid>-<start>
//
// <temp> is in memory where the machine has a large file system there (/dev/shm); TMPDIR decides otherwise.
//
// A test binary that `go test` did not start (a debugger, a compiled test run by hand) has a run of its own. If the
// supervisor itself is killed, the kernel ends Postgres (on Linux), and the next run removes the folder.
package testkit
