// Package bench measures redislimit on a real Redis server on the loopback interface, beside
// github.com/go-redis/redis_rate, which keeps a bucket in Redis too. It is a module of its own
// for the sake of that. There is nothing to import.
//
//	go test -run '^$' -bench . -count 6 . | tee redis.txt && benchstat -col /impl redis.txt
//
// Server, client and benchmark share the machine's processors, so that the figures say how
// the implementations compare, and not what a server carries. ns/op is the time that passed
// divided by the checks of all goroutines; p50 and p99 are of single checks.
package bench
