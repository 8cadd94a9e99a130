package fanout

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// TestFanOut runs failures of a distributed sync, one after the other with one fleet.
func TestFanOut(t *testing.T) {
	f := newFleet(t)
	for _, day := range []struct {
		name string
		goes func()
	}{
		{"killed workers", f.killedWorkers},
		{"message twice", f.messageTwice},
		{"poisoned message", f.poisonedMessage},
		{"killed planner", f.killedPlanner},
		{"two assemblers", f.twoAssemblers},
		{"costs", f.costs},
		{"there and back", f.thereAndBack},
	} {
		t.Run(strings.ReplaceAll(day.name, " ", "_"), func(t *testing.T) {
			f.t = t
			day.goes()
		})
	}
	if n := f.proxy.Checked(); n < f.size.servers {
		t.Errorf("%d calls were checked against a role: the check is broken", n)
	}
}

// Two workers die in the middle of the first round. The queue delivers their messages again, and
// the catalog contains every tool exactly once. On a slow machine the queue may also deliver
// messages of running workers again, so workers may handle more messages than were sent.
func (f *fleet) killedWorkers() {
	began := time.Now()
	f.beginWork()
	f.beginAssembly()
	f.plan(asked)
	f.work.Kill()
	f.work.Kill()
	f.settle()
	took, work, assemble := time.Since(began), f.work.Handled(), f.assemble.Handled()
	f.t.Logf("first round of %d servers, %d tools: %v, including %s s until the messages of the killed workers came again; messages of %d workers: %+v, of assemblies: %+v; requests to servers: %d",
		f.size.servers, f.size.servers*tools, took.Round(time.Millisecond), again, f.size.workers, work, assemble, f.crowd.Asked.Load())
	if work.Died != 2 || work.Failed != 0 || work.Done < (f.size.servers+9)/10 || assemble.Failed+assemble.Died != 0 {
		f.t.Errorf("results of the messages: %+v, %+v", work, assemble)
	}
	f.wantTools(f.size.servers * tools)
	f.wantOnce()
}

// wantOnce checks that no record was written twice, and that the audit has no line twice.
func (f *fleet) wantOnce() {
	f.t.Helper()
	records, lines := f.records()
	for id, rev := range records {
		if rev != 1 || lines[id] != 1 {
			f.t.Errorf("%s was written %d times, with %d audit lines", id, rev, lines[id])
		}
	}
}

// A message that is delivered twice causes no second request to a server and no second write.
func (f *fleet) messageTwice() {
	before, bodies := f.crowd.Asked.Load(), f.work.Bodies()
	for _, body := range bodies[:min(len(bodies), 5)] {
		f.send(body)
		f.send(body)
	}
	f.settle()
	if n := f.crowd.Asked.Load() - before; n != 0 {
		f.t.Errorf("repeated messages caused %d requests to servers", n)
	}
	if h := f.work.Handled(); h.Failed+h.Died != 0 || h.Done < 2*min(len(bodies), 5) {
		f.t.Errorf("of the messages became %+v", h)
	}
	f.wantTools(f.size.servers * tools)
	f.wantOnce()
}

// An invalid message goes to the dead-letter queue after three tries, and workers handle all other
// messages.
func (f *fleet) poisonedMessage() {
	dead := f.queues["WorkDeadUrl"]
	poisons := []string{"no JSON", `{"format":99,"run":{"began":"2026-11-23T00:00:00Z"},"servers":["s000"]}`}
	for _, body := range poisons {
		f.send(body)
	}
	f.plan(asked)
	local.Until(f.t, "the invalid message is in the dead-letter queue", func() bool { return f.Waiting(f.t, dead) == "2 0 0" })
	f.settle()
	if h := f.work.Handled(); h.Failed != 3*len(poisons) || h.Died != 0 || h.Done < (f.size.servers+9)/10 {
		f.t.Errorf("of the messages became %+v", h)
	}
	if out := f.work.Output(); !strings.Contains(out, `"level":"ERROR"`) {
		f.t.Error("no log line reports the invalid message")
	}
	f.wantTools(f.size.servers * tools)
	f.wantOnce()
}

// The planning function dies after it has sent messages, but before it records them. The next round
// loads the servers again; this has no other effect.
func (f *fleet) killedPlanner() {
	f.work.Stop()
	p := f.function("plan")
	f.proxy.KillAt(1, false, p.Stop)
	if _, err := p.Try([]byte(asked)); err == nil || !f.proxy.Killed() {
		f.t.Fatalf("the planning function did not die: %v", err)
	}
	f.plan(asked)
	f.beginWork()
	f.settle()
	if h := f.work.Handled(); h.Failed+h.Died != 0 || h.Done < 2*(f.size.servers/10) {
		f.t.Errorf("of the messages became %+v", h)
	}
	f.wantTools(f.size.servers * tools)
	f.wantOnce()
}

// Two assemblies run at the same time. Both succeed, and there is one catalog with all results.
func (f *fleet) twoAssemblers() {
	f.withMail()
	f.assemble.Stop()
	f.plan(asked)
	local.Until(f.t, "workers have handled every message", func() bool { return f.Waiting(f.t, f.queues["WorkUrl"]) == "0 0 0" })
	event := lambdatest.QueueEvent(f.assemble.Last())
	var both sync.WaitGroup
	for range 2 {
		a := f.function("assemble")
		both.Go(func() {
			if got, err := a.Try(event); err != nil || got.Failed {
				f.t.Errorf("one of the two assemblies failed: %v, %s", err, got.Payload)
			}
		})
	}
	both.Wait()
	f.wantTools(f.size.servers*tools + 2)
	f.beginAssembly()
	f.settle()
	f.wantTools(f.size.servers*tools + 2)
	f.wantOnce()
}

// A stack that changes to fan-out and back keeps its catalog and its decisions. Each mode continues
// from the results of the other mode.
func (f *fleet) thereAndBack() {
	f.beginWork()
	admin := f.Start(f.t, "admin")
	admin.Ask(http.StatusOK, "/admin/tools/mail/send_mail/disable", "{}", nil)
	all := f.size.servers * tools
	for i, step := range []struct {
		name string
		goes func()
	}{
		{"single", func() { f.Sync(f.t) }},
		{"fan-out", func() { f.plan(asked); f.settle() }},
		{"single again", func() { f.Sync(f.t) }},
	} {
		names := []string{"read_mail", "send_mail", "move_mail", "drop_mail", "find_mail"}[:3+i]
		f.lists(names...)
		step.goes()
		if got := f.tools(); got != all+len(names) {
			f.t.Errorf("%s: the catalog has %d tools, want %d", step.name, got, all+len(names))
		}
		agent := f.Start(f.t, "mcp")
		for name, may := range map[string]bool{"read_mail": true, "send_mail": false, slices.Max(names): slices.Max(names) == "read_mail"} {
			if r := agent.Call("call_tool_read", `{"name":"mail:`+name+`","args":{}}`); r.IsError == may {
				f.t.Errorf("%s: answer for mail:%s: %s", step.name, name, r.Text)
			}
		}
		agent.Stop()
	}
}

// costs compares the calls of a round without changes with docs/cost.md.
func (f *fleet) costs() {
	f.work.Stop()
	f.assemble.Stop()
	f.proxy.Calls()
	servers := float64(require.JSON[struct{ Planned int }](f.t, f.plan(asked).Payload).Planned)
	plan := f.proxy.Calls()
	f.beginWork()
	local.Until(f.t, "workers have handled every message", func() bool { return f.Waiting(f.t, f.queues["WorkUrl"]) == "0 0 0" })
	f.work.Stop()
	work, messages := f.proxy.Calls(), float64(f.work.Handled().Done)
	a := f.function("assemble")
	began := time.Now()
	assembled := a.Invoke(lambdatest.QueueEvent(f.assemble.Last()))
	took, assemble := time.Since(began), f.proxy.Calls()
	f.t.Logf("%.0f servers, %.0f messages: plan %v, work %v, assemble %v in %v: %s", servers, messages, plan, work, assemble, took.Round(time.Millisecond), assembled.Payload[:80])
	repo.WantCost(f.t, "`GET`s of S3 to plan", float64(plan["s3 GET"]))
	repo.WantCost(f.t, "`PUT`s of S3 to plan", float64(plan["s3 PUT"]))
	repo.WantCost(f.t, "calls of SQS to hand out ten messages, and one to ask for an assembly", float64(plan["sqs SendMessageBatch"]-1)/math.Ceil(messages/10))
	repo.WantCost(f.t, "`GET`s of S3 by a message, beside one for each server", (float64(work["s3 GET"])-servers)/messages)
	repo.WantCost(f.t, "`PUT`s of S3 by it, each server", float64(work["s3 PUT"])/servers)
	repo.WantCost(f.t, "`Query`s of the table by it, each server", float64(work["dynamodb Query"])/servers)
	repo.WantCost(f.t, "calls of SQS by it, beside the three of Lambda", float64(work["sqs SendMessageBatch"])/messages)
	repo.WantCost(f.t, "`GET`s of S3 by an assembly, beside one for each server that was read", float64(assemble["s3 GET"])-servers)
	repo.WantCost(f.t, "`PUT`s of S3 by it", float64(assemble["s3 PUT"]))
	f.beginAssembly()
	f.settle()
}
