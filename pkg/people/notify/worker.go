package notify

import (
	"context"
	"log/slog"
	"time"
)

const (
	// sendEvery is how often a courier looks at the outbox by itself.
	sendEvery = time.Minute

	// lastSend is how long what is being sent may take when the program ends.
	lastSend = 2 * time.Second
)

// A Worker sends on a goroutine of its own, for a program that goes on between requests.
type Worker struct{ wake chan struct{} }

// NewWorker returns a Worker.
func NewWorker() *Worker { return &Worker{make(chan struct{}, 1)} }

// Wake has the courier look at the outbox. It does not wait.
func (c *Worker) Wake(context.Context, string) error {
	select {
	case c.wake <- struct{}{}:
	default: // it will look
	}
	return nil
}

// Start sends until ctx ends or the returned function is called, which waits until what is being sent
// was, or was given back. What is left is sent by the next program.
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
		// The rest of a run has a little time after the program was told to end: then it is cut short.
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
