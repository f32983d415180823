//go:build !race && !ratelimit_explore

package ratelimit

import (
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a check calls on its way must be inlined: the arithmetic of a word, which is
// a few instructions each, and schedpoint, which is none.
func TestHotPathIsInlined(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command to ask")
	}
	out, err := exec.Command("go", "build", "-gcflags=-m", ".").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, f := range []string{
		`schedpoint`,
		`\(\*layout\)\.units`,
		`\(\*layout\)\.charge`,
		`\(\*layout\)\.age`,
		`\(\*layout\)\.at`,
		`\(\*layout\)\.pack`,
		`\(\*layout\)\.whole`,
		`shardHash`,
	} {
		require.Regexp(t, regexp.MustCompile(`can inline `+f+`\b`), string(out))
	}
}
