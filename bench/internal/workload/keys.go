package workload

import (
	"math/rand/v2"
	"strings"
	"sync"
)

// million is the number of keys in the workloads with many.
const million = 1_000_000

// keyBytes is the length of every key. It is a size class of Go's allocator, so
// that a copy of a key takes exactly this much heap.
const keyBytes = 24

// keys is a number of distinct keys of equal length, one after the other in one
// string. Taking a key out of it costs a multiplication and no memory access, and
// the garbage collector has nothing to look at.
type keys struct{ text string }

// newKeys returns the keys of the numbers from first to first+n-1.
func newKeys(first, n int) keys {
	text := make([]byte, 0, n*keyBytes)
	for i := first; i < first+n; i++ {
		text = appendKey(text, uint64(i))
	}
	return keys{string(text)}
}

func (k keys) len() int { return len(k.text) / keyBytes }

func (k keys) at(i uint32) string {
	from := int(i) * keyBytes
	return k.text[from : from+keyBytes]
}

// clone returns the same keys in other memory.
func (k keys) clone() keys { return keys{strings.Clone(k.text)} }

// appendKey appends the key of the number i, such as "account/e220a8397b1dcdaf".
// The digits are those of a bijection (splitmix64), so that different numbers have
// different keys, and keys of successive numbers nothing in common but the prefix.
func appendKey(text []byte, i uint64) []byte {
	i += 0x9e3779b97f4a7c15
	i = (i ^ i>>30) * 0xbf58476d1ce4e5b9
	i = (i ^ i>>27) * 0x94d049bb133111eb
	i ^= i >> 31
	text = append(text, "account/"...)
	for shift := 60; shift >= 0; shift -= 4 {
		text = append(text, "0123456789abcdef"[i>>shift&15])
	}
	return text
}

// The same million keys twice: what is inserted is never in the memory of what is
// looked up, so that no Implementation can compare pointers instead of bytes.
var (
	insertedKeys = sync.OnceValue(func() keys { return newKeys(0, million) })
	lookupKeys   = sync.OnceValue(func() keys { return insertedKeys().clone() })
)

// An order is a sequence of indices of keys, gone through again and again. It is
// computed before anything is timed and is the same for every Implementation.
type order []uint32

// draws is the length of the random orders: long enough that what one round leaves
// in a cache is of no use to the next.
const draws = 1 << 21

const seed = 1 // any will do, as long as it is always the same

var (
	// inTurn goes through the million keys once.
	inTurn = sync.OnceValue(func() order {
		o := make(order, million)
		for i := range o {
			o[i] = uint32(i)
		}
		return o
	})

	// uniform draws every key with the same probability.
	uniform = sync.OnceValue(func() order {
		random := rand.New(rand.NewPCG(seed, 0))
		o := make(order, draws)
		for i := range o {
			o[i] = random.Uint32N(million)
		}
		return o
	})

	// zipf draws the key of rank k with a probability proportional to k^-1.1: one
	// call in eight is for the most popular key, and one in three for the first
	// ten. Ranks are dealt to the keys at random, since keys that were inserted
	// one after the other lie close together.
	zipf = sync.OnceValue(func() order {
		random := rand.New(rand.NewPCG(seed, 0))
		keyOfRank := random.Perm(million)
		ranks := rand.NewZipf(random, 1.1, 1, million-1)
		o := make(order, draws)
		for i := range o {
			o[i] = uint32(keyOfRank[ranks.Uint64()])
		}
		return o
	})
)
