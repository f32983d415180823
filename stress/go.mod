module github.com/packedbucket/ratelimit/stress

go 1.25

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/packedbucket/ratelimit v0.1.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	golang.org/x/sys v0.30.0 // indirect
)
