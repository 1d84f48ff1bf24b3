// Package endtoend tests sources with what is real around them: the worker kit, Postgres, NATS, and semantic as a
// program of its own, since services never import each other. Only the provider is a fake.
package endtoend
