package notify

import (
	"context"
	"log/slog"
	"time"
)

const (
	// sendEvery is how often a worker checks the outbox without a wake-up.
	sendEvery = time.Minute

	// lastSend limits the time that a running send may take when the program ends.
	lastSend = 2 * time.Second
)

// A Worker sends notices on its own goroutine, in a program that also runs between requests.
type Worker struct{ wake chan struct{} }

// NewWorker returns a Worker.
func NewWorker() *Worker { return &Worker{make(chan struct{}, 1)} }

// Wake makes the worker check the outbox. It does not wait.
func (c *Worker) Wake(context.Context, string) error {
	select {
	case c.wake <- struct{}{}:
	default: // the worker is already due to check
	}
	return nil
}

// Start sends until ctx ends or the caller calls stop. stop waits until the current notices are
// sent or released. The next program sends the remaining notices.
func (c *Worker) Start(ctx context.Context, s *Sender) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.run(ctx, s)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (c *Worker) run(ctx context.Context, s *Sender) {
	for {
		// When the program ends, the current run may take lastSend more before it is canceled.
		sending, cut := context.WithCancel(context.WithoutCancel(ctx))
		end := context.AfterFunc(ctx, func() { time.AfterFunc(lastSend, cut) })
		sent, err := s.send(sending, ctx.Done())
		end()
		cut()
		if err != nil {
			s.o.Log.LogAttrs(ctx, slog.LevelError, "notices are not sent", slog.Any("error", err))
		}
		wait := sendEvery
		if until := sent.Next.Sub(s.o.Now()); !sent.Next.IsZero() && until < wait {
			wait = max(until, time.Second)
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-c.wake:
			t.Stop()
		case <-t.C:
		}
	}
}
