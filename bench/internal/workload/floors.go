package workload

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/packedbucket/ratelimit"
	"github.com/zeebo/xxh3"
)

// A floor is a step that no limiter can do without, driven like a limiter, so that
// the figure of one can be read as a multiple of what the machine needs anyway. It
// keeps no keys and decides nothing. All of them include the adapter and the loop.
type floor struct {
	step func(key string) bool
}

func (f floor) Allow(key string) bool { return f.step(key) }
func (f floor) Len() int              { return -1 }

// newFloor makes an Implementation of a step. The function that makes the step is
// called anew for each benchmark, so that none inherits the state of another.
func newFloor(name string, step func() func(key string) bool) Implementation {
	return Implementation{Name: name, New: func(ratelimit.Limit, int) Limiter { return floor{step()} }}
}

// The floors that stand beside the limiters in the workloads.
var (
	// A grant reads the clock and changes a word that all goroutines share. Swap
	// is the cheapest way to do that and never has to be repeated.
	clockAndSwap = newFloor("floor-clock+swap", func() func(string) bool {
		base, word := time.Now(), new(line)
		return func(string) bool {
			word.Swap(uint64(time.Since(base)))
			return true
		}
	})

	// A denial reads the clock and a shared word that nobody changes.
	clockAndLoad = newFloor("floor-clock+load", func() func(string) bool {
		base, word := time.Now(), new(line)
		return func(string) bool {
			return word.Load() > uint64(time.Since(base))
		}
	})

	// A call for one key of a million fetches the key from memory, hashes it, and
	// reads the clock.
	clockAndHash = newFloor("floor-clock+hash", func() func(string) bool {
		base := time.Now()
		return func(key string) bool {
			return uint64(time.Since(base)) != xxh3.HashStringSeed(key, seed)
		}
	})

	// A bucket that is not in the processor's caches lies in one more cache line, whose
	// address follows from the hash: here a line of 28 MB, as many as WithMaxKeys takes.
	clockHashAndLine = newFloor("floor-clock+hash+line", func() func(string) bool {
		base, lines := time.Now(), make([][8]atomic.Uint64, million*4/9)
		for i := range lines {
			lines[i][0].Store(1) // so that it is there
		}
		return func(key string) bool {
			now := uint64(time.Since(base))
			i, _ := bits.Mul64(xxh3.HashStringSeed(key, seed), uint64(len(lines)))
			old := lines[i][0].Load()
			lines[i][0].CompareAndSwap(old, now) // not repeated, should another be faster
			return true
		}
	})

	// A new key is copied, and a bucket allocated for it.
	cloneAndNew = newFloor("floor-clone+new", func() func(string) bool {
		return func(key string) bool {
			clone, bucket := strings.Clone(key), new(uint64)
			if clone == "" { // never; but it makes the compiler allocate both
				Sink.text, Sink.word = clone, bucket
			}
			return true
		}
	})
)

// A line is a word alone in its cache line.
type line struct {
	_ [64]byte
	atomic.Uint64
	_ [56]byte
}

// Floor times the steps one by one, for one key and one goroutine.
func Floor(b *testing.B) {
	for _, step := range []Implementation{
		newFloor("floor-adapter", func() func(string) bool {
			return func(key string) bool { return len(key) > 0 }
		}),
		newFloor("floor-clock", func() func(string) bool {
			base := time.Now()
			return func(string) bool { return time.Since(base) >= 0 }
		}),
		newFloor("floor-timenow", func() func(string) bool {
			base := time.Now()
			return func(string) bool { return time.Now().Sub(base) >= 0 } //lint:ignore S1012 not the same
		}),
		newFloor("floor-hash", func() func(string) bool {
			return func(key string) bool { return xxh3.HashStringSeed(key, seed) != 0 }
		}),
		newFloor("floor-maphash", func() func(string) bool {
			s := maphash.MakeSeed()
			return func(key string) bool { return maphash.String(s, key) != 0 }
		}),
	} {
		b.Run("impl="+step.Name, func(b *testing.B) {
			hotKey(b, step, granted, 1)
		})
	}
}

// FloorShared times an atomic write to one word, by as many goroutines as
// share it. CompareAndSwap repeats what failed, like a limiter does.
func FloorShared(b *testing.B) {
	cas := newFloor("floor-cas", func() func(string) bool {
		word := new(line)
		return func(string) bool {
			for {
				old := word.Load()
				if word.CompareAndSwap(old, old+1) {
					return true
				}
			}
		}
	})
	swap := newFloor("floor-swap", func() func(string) bool {
		word := new(line)
		return func(string) bool { return word.Swap(1) <= 1 }
	})
	for _, step := range []Implementation{cas, swap} {
		for _, procs := range hotProcs {
			b.Run(fmt.Sprintf("impl=%s/procs=%d", step.Name, procs), func(b *testing.B) {
				hotKey(b, step, granted, procs)
			})
		}
	}
}

// FloorFetch times fetching the text of a key of a million from memory and
// hashing it, without a clock.
func FloorFetch(b *testing.B) {
	fetch := newFloor("floor-fetch+hash", func() func(string) bool {
		return func(key string) bool { return xxh3.HashStringSeed(key, seed) != 0 }
	})
	for _, dist := range dists {
		b.Run(fmt.Sprintf("impl=%s/keys=1M/dist=%s", fetch.Name, dist.name), func(b *testing.B) {
			w := workload{keys: lookupKeys(), order: dist.order()}
			timed(b, fetch.New(lasting, million), w, 1, b.N, b.N)
		})
	}
}
