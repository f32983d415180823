//go:build !race && !ratelimit_explore && !ratelimit_collide

package ratelimit

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a check calls on its way must be inlined where it calls it: the arithmetic of
// a word, which is a few instructions each, and schedpoint, which is none.
func TestHotPathIsInlined(t *testing.T) {
	// -a is not needed: the go command replays what the compiler said.
	out, err := exec.Command("go", "build", "-gcflags=-m", ".").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, call := range []string{
		`bucket\.go:\d+:\d+: inlining call to schedpoint`,
		`bucket\.go:\d+:\d+: inlining call to \(\*layout\)\.units`,
		`bucket\.go:\d+:\d+: inlining call to \(\*layout\)\.charge`,
		`bucket\.go:\d+:\d+: inlining call to \(\*layout\)\.whole`,
		`packed\.go:\d+:\d+: inlining call to \(\*layout\)\.age`,
		`packed\.go:\d+:\d+: inlining call to \(\*layout\)\.at`,
		`packed\.go:\d+:\d+: inlining call to \(\*layout\)\.pack`,
		`shardmap\.go:\d+:\d+: inlining call to shardHash`,
	} {
		require.Regexp(t, call, string(out))
	}
}
