package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// slackBody returns the body for a Slack webhook. The button is a link, because people cannot
// decide in Slack.
func slackBody(m message) ([]byte, error) {
	type textObject struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Verbatim bool   `json:"verbatim,omitempty"` // Slack looks for no channel, user or address in it
	}
	type element struct {
		Type string     `json:"type"`
		Text textObject `json:"text"`
		URL  string     `json:"url"`
	}
	type block struct {
		Type     string      `json:"type"`
		Text     *textObject `json:"text,omitempty"`
		Elements []element   `json:"elements,omitempty"`
	}
	blocks := []block{{Type: "section", Text: &textObject{"mrkdwn", m.slackMarkup(), true}}}
	if m.link != "" {
		blocks = append(blocks, block{Type: "actions", Elements: []element{{"button", textObject{Type: "plain_text", Text: m.button}, m.link}}})
	}
	return json.Marshal(struct {
		Text   string  `json:"text"` // of the notification on a phone
		Blocks []block `json:"blocks"`
		Links  bool    `json:"unfurl_links"`
		Media  bool    `json:"unfurl_media"`
	}{m.slackMarkup(), blocks, false, false})
}

// hookData is the data of a webhook. docs/notify.md describes it. Members may be added.
type hookData struct {
	Server  string         `json:"server,omitempty"`
	Items   []string       `json:"items,omitempty"` // ids; a long URI is clipped
	More    int            `json:"more,omitempty"`  // number of further items
	Agent   string         `json:"agent,omitempty"`
	Request string         `json:"request,omitempty"`
	OneCall bool           `json:"one_call,omitempty"`
	Verdict string         `json:"verdict,omitempty"`
	Also    []string       `json:"also,omitempty"`
	By      string         `json:"by,omitempty"`
	Status  outcome.Status `json:"status,omitempty"`
	Reason  string         `json:"reason,omitempty"`
	File    string         `json:"file,omitempty"`
	Faults  int            `json:"faults,omitempty"`
	Waiting int            `json:"waiting,omitempty"`
	Tier    string         `json:"tier,omitempty"`
	Found   *int           `json:"findings,omitempty"` // if the tier is known
	Text    string         `json:"text"`               // the line for people
	Link    string         `json:"link,omitempty"`
}

// hookBody returns the payload of a webhook.
func hookBody(e Event, m message) ([]byte, error) {
	d := hookData{
		Server: e.Server, More: e.More, Agent: e.Agent, Request: e.Request, OneCall: e.OneCall, Verdict: e.Verdict, By: e.By,
		Also: e.Also, Tier: e.Tier, Status: e.Status, Reason: e.Reason, File: e.File, Faults: e.Faults, Waiting: e.Waiting, Text: m.plain(), Link: m.link,
	}
	if e.Tier != "" {
		d.Found = &e.Findings
	}
	for _, id := range e.Items {
		d.Items = append(d.Items, text.Clip(id.String(), maxItem))
	}
	return json.Marshal(struct {
		Type      Kind      `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      hookData  `json:"data"`
	}{e.Kind, e.At, d})
}

// maxItem limits the characters of an item's id in a webhook. Every tool name is shorter.
const maxItem = 300

// webhookID returns the event's id for targets. All attempts have the same id.
func webhookID(e Event) string { return "msg_" + IDOf(string(e.Kind), e.ID) }

// sign returns the signature of a webhook, as in Standard Webhooks.
func sign(key []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
