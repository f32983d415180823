package stress

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestModel runs the model of a table's protocol, table.pml, through every interleaving,
// in several sizes. It needs spin and gcc; without them it is skipped, unless
// RATELIMIT_NEED_SPIN is set.
func TestModel(t *testing.T) {
	needSpin(t)
	for _, test := range []struct {
		name    string
		defines string
		long    bool // millions of states
	}{
		{"three takes", "TAKES_A=2 TAKES_B=1", false},
		{"three takes and the third set", "TAKES_A=2 TAKES_B=1 SPILL=1", false},
		{"two takes, a refund and the third set", "TAKES_A=1 TAKES_B=1 REFUNDS_A=1 SPILL=1", false},
		{"two takes, a sweep and the third set", "TAKES_A=2 TAKES_B=0 SWEEPS=1 SPILL=1", false},
		{"three takes, refused without a lock", "TAKES_A=2 TAKES_B=1 REFUSE=1 SPILL=1", true},
		{"three takes, last in steps", "TAKES_A=2 TAKES_B=1 STEP=2 TICKS=3", true},
		{"two takes of two tokens and a sweep, last in steps", "TAKES_A=2 TAKES_B=0 SWEEPS=1 STEP=2 CAPACITY=2", true},
		{"four takes", "TAKES_A=2 TAKES_B=2", true},
		{"three takes, a sweep and the third set", "TAKES_A=2 TAKES_B=1 SWEEPS=1 SPILL=1", true},
		{"two takes, a refund, a sweep and the third set", "TAKES_A=1 TAKES_B=1 REFUNDS_A=1 SWEEPS=1 SPILL=1", true},
		{"two takes of two tokens and a refund", "TAKES_A=1 TAKES_B=1 REFUNDS_A=1 CAPACITY=2", true},
		{"three takes of two tokens and evictions", "TAKES_A=2 TAKES_B=1 CAPACITY=2 EVICT=1", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.long && testing.Short() {
				t.Skip("takes millions of states")
			}
			t.Parallel()
			optimize := "-O0"
			if test.long {
				optimize = "-O1"
			}
			m := newModel(t, optimize, test.defines)
			result := m.search(t)
			if !strings.Contains(result, "errors: 0\n") {
				t.Fatalf("%s\n%s", result, m.trail(t))
			}
			for _, incomplete := range []string{"Search not completed", "max search depth too small"} {
				if strings.Contains(result, incomplete) {
					t.Fatal(result)
				}
			}
			t.Logf("%s states, %s seconds, %s MB", figure(result, `([0-9.e+]+) states, stored`),
				figure(result, `elapsed time ([0-9.]+)`), figure(result, `([0-9.]+)\ttotal actual memory`))
		})
	}
}

// TestBrokenModels breaks one rule of the protocol at a time. That each is found out is
// the reason to believe the model when it finds nothing.
func TestBrokenModels(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles many programs")
	}
	needSpin(t)
	const (
		assertion = "assertion violated"
		deadlock  = "invalid end state"
	)
	for _, test := range []struct {
		name    string
		defines string
		want    string
	}{
		{"no locks", "NO_LOCK=1", assertion},
		{"the lock of one set of two", "ONE_LOCK=1", assertion},
		{"locks in the order of the key's sets", "LOCK_ORDER=1", deadlock},
		{"a sweep without the lock", "SWEEP_UNLOCKED=1 SWEEPS=1", assertion},
		{"no look whether the key owns a slot", "NO_LOOK=1", assertion},
		{"removedAt read before the locks", "FROM_EARLY=1", assertion},
		{"removedAt not raised", "NO_RAISE=1", assertion},
		{"removedAt raised after the claim", "RAISE_LATE=1 SPILL=1", assertion},
		{"the tag before the word", "TAG_FIRST=1", assertion},
		{"a claim by a store", "STORE_CLAIM=1", assertion},
		{"a grant by a store", "STORE_GRANT=1", assertion},
		{"vacant in the step of last", "SAME_STEP=1 TAKES_A=1 REFUNDS_A=1", assertion},
		{"no look at the tag after the load", "NO_RECHECK=1", assertion},
		{"no look at the tag before a refund", "NO_RECHECK=1 TAKES_A=1 REFUNDS_A=1", assertion},
		{"a denial without a second load", "NO_RELOAD=1", assertion},
		{"a denial on an old clock read", "NO_SECOND_READ=1 TAKES_B=0 STEP=2 CAPACITY=2", assertion},
		{"no sign that the third set is in use", "NO_FLAG=1 SPILL=1 TAKES_A=1 REFUNDS_A=1", assertion},
		{"that sign given when the time of the bucket is fixed", "FLAG_LATE=1 SPILL=1 SWEEPS=1", assertion},
		{"refused in spite of a bucket", "REFUSE_BLIND=1 REFUSE=1", assertion},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			result := newModel(t, "-O0", test.defines).search(t)
			if strings.Contains(result, "errors: 0\n") || !strings.Contains(result, test.want) {
				t.Errorf("want %q:\n%s", test.want, result)
			}
		})
	}
}

// needSpin skips a test that needs spin and gcc if they are not there.
func needSpin(t *testing.T) {
	t.Helper()
	for _, program := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("RATELIMIT_NEED_SPIN") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
}

// A model is table.pml, compiled.
type model struct {
	dir     string
	source  string
	defines []string
}

// newModel compiles table.pml with the given macros.
func newModel(t *testing.T, optimize, defines string) *model {
	t.Helper()
	source, err := filepath.Abs("table.pml")
	if err != nil {
		t.Fatal(err)
	}
	m := &model{dir: t.TempDir(), source: source}
	for d := range strings.FieldsSeq(defines) {
		m.defines = append(m.defines, "-D"+d)
	}
	m.run(t, "spin", append(append([]string{"-a"}, m.defines...), source)...)
	// A search that needs more than so many MB ends with an error.
	m.run(t, "gcc", optimize, "-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=1000", "-o", "pan", "pan.c")
	return m
}

// search looks at every state, or stops at the first error.
func (m *model) search(t *testing.T) string {
	t.Helper()
	return m.run(t, "./pan", "-m1000")
}

// trail returns the steps that led to an error.
func (m *model) trail(t *testing.T) string {
	t.Helper()
	args := append([]string{"-p", "-g", "-l", "-k", "table.pml.trail"}, m.defines...)
	return m.run(t, "spin", append(args, m.source)...)
}

func (m *model) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = m.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// figure returns what the pattern finds in a result.
func figure(result, pattern string) string {
	if found := regexp.MustCompile(pattern).FindStringSubmatch(result); found != nil {
		return found[1]
	}
	return "?"
}
