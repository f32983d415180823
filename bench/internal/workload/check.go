package workload

import "testing"

// Check tests that calls of the implementations come out as the names of the benchmarks
// say, and that keys that are equal are one key, wherever they lie.
func Check(t *testing.T, impls ...Implementation) {
	for _, impl := range impls {
		for _, v := range []verdict{granted, denied} {
			t.Run("impl="+impl.Name+"/verdict="+v.name, func(t *testing.T) {
				prepareHotKey(t, impl.New(v.limit, 1), v)
			})
		}
		t.Run("impl="+impl.Name+"/keys", func(t *testing.T) {
			const n = 20_000
			set := newKeys(0, n)
			l := impl.New(lasting, million)
			fill(t, l, set)         // n new ones
			fill(t, l, set.clone()) // all known

			l = impl.New(exhausted, million)
			fill(t, l, set)
			for i := range n {
				if l.Allow(set.at(uint32(i))) {
					t.Fatalf("key %d was granted twice what it holds", i)
				}
			}
		})
	}
}
