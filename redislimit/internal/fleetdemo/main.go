// Command fleetdemo shows one limit for a fleet: it starts a Redis and a few processes
// of the same HTTP service, sends requests to all of them, and compares what they granted
// together with what the limit allows. make demo-fleet runs it.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	redisAddr := flag.String("redis", "", "run as one process of the service, with the Redis at this `address`")
	leased := flag.Bool("leased", false, "the service books tokens ahead")
	nodes := flag.Int("nodes", 3, "`number` of processes of the service")
	seconds := flag.Float64("seconds", 3, "how long to send requests")
	flag.Parse()
	var err error
	if *redisAddr != "" {
		err = serve(*redisAddr, *leased)
	} else {
		err = show(*nodes, *seconds)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleetdemo:", err)
		os.Exit(1)
	}
}
