package queuetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Run checks a driver against the promises of [catalog.Queue]. The function open returns a
// new queue, and a function that removes and returns all messages. If fifo is set, the queue keeps
// the order of the messages.
func Run(t *testing.T, open func(t *testing.T, fifo bool) (q catalog.Queue, drain func() []string)) {
	t.Run("many", func(t *testing.T) {
		q, drain := open(t, false)
		var messages []catalog.Message
		var want []string
		for i := range 23 {
			want = append(want, fmt.Sprintf(`{"number":%02d,"text":"ä <&> \"\u0000"}`, i))
			messages = append(messages, catalog.Message{Body: []byte(want[i])})
		}
		require.OK(t, q.Send(t.Context(), messages))
		require.OK(t, q.Send(t.Context(), nil))
		got := drain()
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%d messages came: %q", len(got), got)
		}
	})
	t.Run("large ones", func(t *testing.T) {
		q, drain := open(t, false)
		large := []byte(strings.Repeat("x", catalog.MaxBody/2+1))
		require.OK(t, q.Send(t.Context(), []catalog.Message{{Body: large}, {Body: large}, {Body: []byte("y")}}))
		if n := len(drain()); n != 3 {
			t.Errorf("%d of 3 messages came", n)
		}
	})
	t.Run("too large", func(t *testing.T) {
		q, drain := open(t, false)
		err := q.Send(t.Context(), []catalog.Message{{Body: []byte("x")}, {Body: make([]byte, catalog.MaxBody+1)}})
		if n := len(drain()); !errors.Is(err, catalog.ErrTooLarge) || n != 0 {
			t.Errorf("Send = %v, and %d messages came", err, n)
		}
	})
	t.Run("duplicate", func(t *testing.T) {
		q, drain := open(t, true)
		for _, id := range []string{"a", "a", "b"} {
			require.OK(t, q.Send(t.Context(), []catalog.Message{{Body: []byte("of " + id), Group: "g", DeduplicationID: id}}))
		}
		if got := drain(); !slices.Equal(got, []string{"of a", "of b"}) {
			t.Errorf("%q came, want each message once", got)
		}
	})
	t.Run("ended context", func(t *testing.T) {
		q, drain := open(t, false)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := q.Send(ctx, []catalog.Message{{Body: []byte("x")}})
		if n := len(drain()); err == nil || n != 0 {
			t.Errorf("Send = %v, and %d messages came", err, n)
		}
	})
}
