package redislimit

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed state.lua
	stateSource string
	//go:embed take.lua
	takeSource string
	//go:embed peek.lua
	peekSource string
	//go:embed refund.lua
	refundSource string
	//go:embed window.lua
	windowSource string
)

// The scripts. Those of a token bucket begin with its state.
var (
	takeScript   = newScript(stateSource + takeSource)
	peekScript   = newScript(stateSource + peekSource)
	refundScript = newScript(stateSource + refundSource)
	windowScript = newScript(windowSource)
)

// A script is run by the hash of its source, which is sent when the server does not know
// it.
type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source)) // by which Redis knows a script
	return script{source, hex.EncodeToString(sum[:])}
}

// run runs the script on one key and returns the integers that it answers with, want many.
// It is sent once: what fails without an answer may have been done. (A server that does
// not know the hash, or the key, has said so, and is asked again, or another one.)
func (s script) run(ctx context.Context, client redis.UniversalClient, want int, key string, args []any) ([]int64, error) {
	answer, err := once(ctx, client, "evalsha", s.sha, key, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		answer, err = once(ctx, client, "eval", s.source, key, args)
	}
	if err != nil {
		return nil, err
	}
	numbers, err := answer.Int64Slice()
	if err == nil && len(numbers) != want {
		err = fmt.Errorf("the script answered with %d numbers, want %d", len(numbers), want)
	}
	return numbers, err
}

// once sends a script and does not send it again when there is no answer.
func once(ctx context.Context, client redis.UniversalClient, command, script, key string, args []any) (*redis.Cmd, error) {
	cmd := redis.NewCmd(ctx, append([]any{command, script, 1, key}, args...)...)
	cmd.SetFirstKeyPos(3)
	err := client.Process(ctx, sendOnce{cmd})
	return cmd, err
}

// sendOnce is a command that the client does not retry, whatever its options say. By
// default it would send one again that had no answer, up to three times.
type sendOnce struct{ *redis.Cmd }

func (sendOnce) NoRetry() bool { return true }
