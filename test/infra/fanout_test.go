package infra

import (
	"strconv"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/roletest"
)

const receive, send = "sqs:ReceiveMessage", "sqs:SendMessage"

// triesOfPlan returns the tries of the sync function with SyncMode=fanout, which plans the work.
func triesOfPlan() []try {
	return []try{
		{"sends servers to workers", on(send, roletest.WorkQueue), true},
		{"asks for an assembly", on(send, roletest.AssembleQueue), true},
		{"takes a batch", on(receive, roletest.WorkQueue), false},
		{"stores the plan", put("catalog/planned.json"), true},
		{"keeps the last good config", put("catalog/last_good_config.json"), true},
		{"moves the catalog", put("catalog/current-2.json"), false},
		{"stores what it found", put("catalog/servers/github.found"), false},
		{"removes a catalog", remove("catalog/0a.snap"), false},
		{"publishes to the topics", on("sns:Publish", roletest.Topics), true},
		{"reads a secret of notices", noticeSecret, true},
	}
}

func triesOfWork() []try {
	return []try{
		{"takes a batch", on(receive, roletest.WorkQueue), true},
		{"deletes a message", on("sqs:DeleteMessage", roletest.WorkQueue), true},
		{"sends servers to workers", on(send, roletest.WorkQueue), false},
		{"asks for an assembly", on(send, roletest.AssembleQueue), true},
		{"takes an assembly", on(receive, roletest.AssembleQueue), false},
		{"empties its queue", on("sqs:PurgeQueue", roletest.WorkQueue), false},
		{"stores what it found", put("catalog/servers/github.found"), true},
		{"moves the catalog", put("catalog/current-2.json"), false},
		{"writes the config", put("config/policy.cedar"), false},
		{"removes what was found", remove("catalog/servers/github.found"), false},
		{"reads a secret of a server", serverSecret, true},
		{"reads a secret of notices", noticeSecret, false},
		{"publishes", on("sns:Publish", roletest.Topics), false},
	}
}

func triesOfAssemble() []try {
	return []try{
		{"takes an assembly", on(receive, roletest.AssembleQueue), true},
		{"takes a batch", on(receive, roletest.WorkQueue), false},
		{"asks for an assembly", on(send, roletest.AssembleQueue), false},
		{"moves the catalog", put("catalog/current-2.json"), true},
		{"writes the config", put("config/policy.cedar"), false},
		{"removes a catalog", remove("catalog/0a.snap"), true},
		{"removes what was found", remove("catalog/servers/github.found"), true},
		{"removes the catalog", remove("catalog/current-2.json"), false},
		{"reads a secret of a server", serverSecret, false},
		{"reads a secret of notices", on("secretsmanager:GetSecretValue", roletest.Secret("notify/slack")), false},
		{"starts the sync function", on("lambda:InvokeFunction", roletest.Syncer), false},
	}
}

// The times of the queues match the times of the functions. The dead-letter queue keeps a message
// longer than the queue could have kept it before.
func TestQueuesFitTheFunctions(t *testing.T) {
	x := nested(t, "infra/fanout.yaml")
	queues := x.deployed(t, nil)
	functions := expand(t).deployed(t, map[string]string{"AuthMode": "token", "SyncMode": "fanout"})
	seconds := func(queue, property string) int {
		t.Helper()
		n, err := strconv.ParseFloat(queues.text(x.Resources[queue].Properties[property]), 64)
		if err != nil {
			t.Fatalf("%s of %s: %v", property, queue, err)
		}
		return int(n)
	}
	for queue, times := range map[string]int{"Work": 6, "Assemble": 1} { // AWS requires 6; a FIFO group waits
		p, dead := x.Resources[queue].Properties, x.Resources[queue+"Dead"].Properties
		timeout, err := strconv.Atoi(functions.text(functions.Resources[queue+"Function"].Properties["Timeout"]))
		require.OK(t, err)
		again := seconds(queue, "VisibilityTimeout")
		if again < times*timeout || queue == "Assemble" && again <= timeout {
			t.Errorf("%s delivers a message again after %d s, but its function may run for %d s", queue, again, timeout)
		}
		redrive := p["RedrivePolicy"].(map[string]any)
		target, tries := text(redrive["deadLetterTargetArn"]), redrive["maxReceiveCount"]
		if target != queue+"Dead.Arn" || tries != 3.0 {
			t.Errorf("failed messages of %s go to %s after %v tries", queue, target, tries)
		}
		// The retention time in the dead-letter queue of a standard queue starts when the message
		// is first sent.
		keeps := seconds(queue, "MessageRetentionPeriod")
		if keeps < 3*again || seconds(queue+"Dead", "MessageRetentionPeriod") < 10*keeps {
			t.Errorf("%s keeps a message for %d s", queue, keeps)
		}
		fifo := p["FifoQueue"]
		if fifo != dead["FifoQueue"] || (fifo == true) != (queue == "Assemble") {
			t.Errorf("%s is FIFO: %v, its dead letters %v", queue, fifo, dead["FifoQueue"])
		}
		mapping := functions.Resources[queue+"Mapping"].Properties
		source, batch := functions.text(mapping["EventSourceArn"]), mapping["BatchSize"]
		if source != "FanOut.Outputs."+queue+"Arn" || batch != 1.0 {
			t.Errorf("%s is called with %v messages of %s", queue, batch, source)
		}
	}
	if got := functions.text(functions.Resources["Schedule"].Properties["ScheduleExpression"]); got != "rate(1 minute)" {
		t.Errorf("rounds are planned at %s", got)
	}
}

// Each function gets its role in the sync, and its queues, as settings. Without a queue it does not
// start.
func TestFunctionsNeedTheirQueues(t *testing.T) {
	d := expand(t).deployed(t, map[string]string{"AuthMode": "token", "SyncMode": "fanout"})
	const work, assemble = "PORTCULLIS_WORK_QUEUE", "PORTCULLIS_ASSEMBLE_QUEUE"
	for function, part := range map[string]struct {
		role  string
		needs []string
	}{"SyncFunction": {"plan", []string{work, assemble}}, "WorkFunction": {"work", []string{assemble}}, "AssembleFunction": {"assemble", nil}} {
		env := d.environment(function)
		_, err := boot.Load(func(name string) string { return env[name] })
		if role := env["PORTCULLIS_SYNC_ROLE"]; err != nil || role != part.role {
			t.Errorf("%s with the role %q does not start: %v", function, role, err)
		}
		for _, queue := range part.needs {
			delete(env, queue)
			_, err := boot.Load(func(name string) string { return env[name] })
			if err == nil || !strings.Contains(err.Error(), queue+" is not set: the URL of the SQS queue") {
				t.Errorf("%s without %s: %v", function, queue, err)
			}
		}
	}
}
