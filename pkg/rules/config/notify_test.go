package config

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// withNotify returns a file with these targets.
func withNotify(targets ...string) string {
	return withServers(`, "notify": [`+strings.Join(targets, ", ")+`]`, "s")
}

func whsec(n int) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", n)))
}

func TestNotifyFaults(t *testing.T) {
	many := make([]string, maxNotify+1)
	for i := range many {
		many[i] = fmt.Sprintf(`{"type": "slack", "url": "${env:U%d}"}`, i)
	}
	const signing = "is not whsec_ and 24 to 64 bytes in base64; `echo whsec_$(openssl rand -base64 32)` prints one"
	for _, tt := range []struct {
		name    string
		targets []string
		want    []string
	}{
		{"no type", []string{`{"url": "https://h.example"}`}, []string{"notify[0].type: is missing: want slack, webhook or sns"}},
		{"another type", []string{`{"type": "teams", "url": "https://h.example"}`}, []string{`notify[0].type: "teams" is not one of slack, webhook, sns`}},
		{"an unknown key", []string{`{"type": "slack", "url": "${env:U}", "channel": "#ops"}`}, []string{"notify[0].channel: unknown key"}},
		{"no object", []string{`"slack"`}, []string{"notify[0]: want an object, found a string"}},
		{"nothing of slack", []string{`{"type": "slack"}`}, []string{"notify[0].url: is missing: a target of type slack has one"}},
		{"nothing of webhook", []string{`{"type": "webhook"}`}, []string{"notify[0].url: is missing: a target of type webhook has one", "notify[0].secret: is missing: a target of type webhook has one"}},
		{"nothing of sns", []string{`{"type": "sns"}`}, []string{"notify[0].topic: is missing: a target of type sns has one"}},
		{"a secret of slack", []string{`{"type": "slack", "url": "${env:U}", "secret": "${env:S}"}`}, []string{"notify[0].secret: does not belong to a target of type slack, which has url; remove it"}},
		{"a url of sns", []string{`{"type": "sns", "url": "https://h.example", "topic": "arn:aws:sns:eu-west-1:123456789012:t"}`}, []string{"notify[0].url: does not belong to a target of type sns, which has topic; remove it"}},
		{"a topic of webhook", []string{`{"type": "webhook", "url": "https://h.example", "secret": "${env:S}", "topic": "t"}`}, []string{"notify[0].topic: does not belong to a target of type webhook, which has url and secret; remove it"}},
		{"bad addresses", []string{
			`{"type": "slack", "url": "ftp://hunter2.example"}`, `{"type": "slack", "url": "https:///hunter2"}`, `{"type": "slack", "url": "https://u:hunter2@h.example"}`,
			`{"type": "slack", "url": "https://h.example/#hunter2"}`, `{"type": "slack", "url": "https://h.example/hunter 2"}`, `{"type": "slack", "url": "https://h.example:0/hunter2"}`,
		}, []string{
			"notify[0].url: begins with neither https:// nor http://", "notify[1].url: has no host",
			"notify[2].url: holds a user or password, which are not sent; a webhook is signed with its secret",
			"notify[3].url: has a fragment (#…), which is never sent", "notify[4].url: is not a URL", "notify[5].url: has a port that is not 1 to 65535",
		}},
		{"bad references", []string{`{"type": "webhook", "url": "${vault:x}", "secret": "${env:S"}`}, []string{
			"notify[0].url: holds a ${…} of an unknown kind; there are env, ssm and secretsmanager", "notify[0].secret: holds ${ without its }",
		}},
		{"bad secrets", []string{
			`{"type": "webhook", "url": "https://a.example", "secret": "hunter2"}`, `{"type": "webhook", "url": "https://b.example", "secret": "` + whsec(23) + `"}`,
			`{"type": "webhook", "url": "https://c.example", "secret": "` + whsec(65) + `"}`, `{"type": "webhook", "url": "https://d.example", "secret": "whsec_***"}`,
		}, []string{"notify[0].secret: " + signing, "notify[1].secret: " + signing, "notify[2].secret: " + signing, "notify[3].secret: " + signing}},
		{"bad topics", []string{
			`{"type": "sns", "topic": "portcullis"}`, `{"type": "sns", "topic": "arn:aws:sqs:eu-west-1:123456789012:t"}`,
			`{"type": "sns", "topic": "arn:aws:sns:eu-west-1:123456789012:t.fifo"}`, `{"type": "sns", "topic": "arn:aws:sns:eu-west-1:123456789012:t:sub"}`,
		}, []string{
			"notify[0].topic: is not the ARN of an SNS topic: arn:aws:sns:REGION:ACCOUNT:NAME", "notify[1].topic: is not the ARN of an SNS topic: arn:aws:sns:REGION:ACCOUNT:NAME",
			"notify[2].topic: is not the ARN of an SNS topic: arn:aws:sns:REGION:ACCOUNT:NAME", "notify[3].topic: is not the ARN of an SNS topic: arn:aws:sns:REGION:ACCOUNT:NAME",
		}},
		{"events", []string{`{"type": "slack", "url": "${env:U}", "events": ["asked", "new", "new"]}`, `{"type": "slack", "url": "${env:V}", "events": []}`}, []string{
			`notify[0].events[0]: "asked" is not one of changed, new, request, decided, server_down, config_refused, connection_ended`, `notify[0].events[2]: "new" is listed twice; remove one`,
			"notify[1].events: is empty, so this target gets no events; leave it out for all events, or remove the target",
		}},
		{"one address twice", []string{`{"type": "slack", "url": "${env:U}", "events": ["new"]}`, `{"type": "slack", "url": "${env:U}", "events": ["changed"]}`}, []string{
			"notify[1]: has the address of notify[0]: people would get each notice twice; list all events in one target",
		}},
		{"servers", []string{
			`{"type": "slack", "url": "${env:U}", "servers": ["s", "none", "s"]}`, `{"type": "slack", "url": "${env:V}", "servers": []}`,
			`{"type": "slack", "url": "${env:W}", "servers": ["s"], "events": ["new", "config_refused"]}`, `{"type": "slack", "url": "${env:X}", "servers": "s"}`,
		}, []string{
			`notify[0].servers[1]: there is no server "none" in mcpServers`, `notify[0].servers[2]: "s" is listed twice; remove one`,
			"notify[1].servers: is empty, so this target gets no events; leave it out for all servers",
			"notify[2].events[1]: is about no server, so a target with servers does not get it; remove it here, or remove servers",
			"notify[3].servers: want an array, found a string",
		}},
		{"too many", many, []string{"notify: has 21 targets; there can be 20"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := faultsOf(t, withNotify(tt.targets...))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if strings.Contains(strings.Join(got, "\n"), "hunter2") {
				t.Errorf("a fault repeats what may be secret: %s", got)
			}
		})
	}
}

func TestNotifyWarnings(t *testing.T) {
	cfg, err := Parse([]byte(withNotify(
		`{"type": "slack", "url": "https://hooks.slack.com/services/T0/B0/hunter2"}`,
		`{"type": "webhook", "url": "https://h.example/in?token=hunter2", "secret": "`+whsec(32)+`"}`,
		`{"type": "webhook", "url": "http://10.0.0.7:9000/in", "secret": "${ssm:/portcullis/webhook}"}`,
		`{"type": "slack", "url": "${secretsmanager:portcullis/slack}"}`,
	)))
	require.OK(t, err)
	var paths []string
	for _, w := range cfg.Warnings {
		paths = append(paths, w.Path)
		if !strings.Contains(w.Message, "written in clear") || strings.Contains(w.Message, "hunter2") {
			t.Errorf("warning %s", w)
		}
	}
	if diff := cmp.Diff([]string{"notify[0].url", "notify[1].url", "notify[1].secret"}, paths); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	for _, target := range cfg.Notify {
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", slog.Any("target", target))
		asJSON, err := json.Marshal(target)
		if shown := fmt.Sprintf("%v %+v %#v %s %s", target, target, target, asJSON, log.String()); err != nil || strings.Contains(shown, "hunter2") || strings.Contains(shown, "h.example") || strings.Contains(shown, "a2tr") {
			t.Errorf("a target prints: %s", shown)
		}
	}
}

func TestNotifyVariables(t *testing.T) {
	cfg, err := Parse([]byte(withNotify(`{"type": "slack", "url": "${ssm:/x}"}`, `{"type": "webhook", "url": "${env:HOOK}", "secret": "${env:KEY}"}`)))
	require.OK(t, err)
	var got []Variable
	for i, target := range cfg.Notify {
		got = append(got, target.Variables(i)...)
	}
	if diff := cmp.Diff([]Variable{{"KEY", "notify[1].secret"}, {"HOOK", "notify[1].url"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
