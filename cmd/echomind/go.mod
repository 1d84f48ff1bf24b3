module github.com/echomind/sync/cmd/echomind

go 1.26.0

require (
	github.com/echomind/sync v0.0.0
	github.com/echomind/sync/services/chunker v0.0.0
	github.com/echomind/sync/services/scheduler v0.0.0
	github.com/echomind/sync/services/semantic v0.0.0
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/spf13/cobra v1.10.2 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)

replace (
	github.com/echomind/sync => ../..
	github.com/echomind/sync/services/chunker => ../../services/chunker
	github.com/echomind/sync/services/scheduler => ../../services/scheduler
	github.com/echomind/sync/services/semantic => ../../services/semantic
)
