package peers

import (
	"strings"
	"sync"

	"github.com/packedbucket/ratelimit/bench/internal/workload"
)

// keyed keeps limiters that have no keys in a sync.Map, one for each key.
type keyed[L any] struct {
	limiters sync.Map
	make     func() L
	allow    func(L) bool
}

func (k *keyed[L]) Allow(key string) bool { return k.allow(k.get(key)) }

func (k *keyed[L]) get(key string) L {
	l, ok := k.limiters.Load(key)
	if !ok {
		l, _ = k.limiters.LoadOrStore(strings.Clone(key), k.make())
	}
	return l.(L)
}

func (k *keyed[L]) Len() (n int) {
	for range k.limiters.Range {
		n++
	}
	return n
}

var _ workload.Limiter = (*keyed[int])(nil)
