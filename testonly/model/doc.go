// Package model tests the five promises of the whole pipeline against a model of the world around it.
//
// The real scheduler, worker kit and semantic run over a real Postgres and a real nats-server. The sources are
// modelled: a source is a map of documents, and the model knows every version they ever had. Histories of
// random actions (users change connectors, sources change, processes die between any two statements, the broker
// loses and doubles messages, workers sleep and wake) are played; after each action the promises are checked in
// the database, and at the end the world is healed and everything must come to rest and be equal to its source.
//
//	go test .                                    the fixed seeds, and a fresh one that is printed
//	go test . -rapid.seed=7 -rapid.checks=500    one seed, many histories
//
// Two things are not the real ones in random histories, so that every step can be stopped at: the worker is driven
// by hand, through the calls that the kit makes in the order that the kit makes them (while healing, and in the
// named histories, it is the kit), and semantic is handed its messages rather than pulling them. Worker processes have
// several runs each, under one lease; some runs are those of a subscriber that keeps none. A process dies by
// its connections refusing every further statement and acknowledgement. Nothing waits for time to pass: leases and
// due times are aged in the database.
package model
