package workload

import (
	"runtime"
	"strings"
	"testing"
)

// Copies tests that the implementations that are not NoCopy keep copies of keys, and not
// the caller's strings: those are parts of larger ones, which must not stay in memory.
func Copies(t *testing.T, impls ...Implementation) {
	const pages, page = 20, 1 << 20
	for _, impl := range impls {
		t.Run("impl="+impl.Name+"/copies", func(t *testing.T) {
			l := impl.New(lasting, pages)
			defer stop(l)
			before := liveHeap()
			for i := range pages {
				text := newKeys(i, 1).at(0) + strings.Repeat(" ", page)
				l.Allow(text[:keyBytes])
			}
			kept := int64(liveHeap()) - int64(before)
			runtime.KeepAlive(l)
			if kept > pages*page/2 && !impl.NoCopy {
				t.Errorf("%d bytes are kept for %d keys", kept, pages)
			}
		})
	}
}
