package upstream

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

const (
	maxMessages     = 100      // of one server
	maxMessageBytes = 16 << 10 // of these messages
	maxMessage      = 512      // characters of one message
	maxTalkers      = 1000     // servers with messages

	messageStderr  = "stderr"
	messageStdout  = "stdout"
	messageLog     = "log"
	messageError   = "error"
	messageProgram = "program"
)

// A Message is what a server told its operator: a line of a program's standard error, a log
// notification, or the error of a load or a call. It contains none of the server's credentials.
type Message struct {
	Number int64 // larger than the numbers of all earlier messages, even those before a restart
	At     time.Time
	Kind   string // stderr, stdout, log, error or program
	Level  string // of a log notification; "": none
	Text   string // one line
	Times  int    // how many times in a row
}

// messages holds the last messages of each server. Its zero value is usable.
type messages struct {
	mu   sync.Mutex
	last int64
	of   map[string][]Message
}

// add adds a message of a server. A message that repeats the last one replaces it.
func (m *messages) add(server string, now time.Time, msg Message) {
	msg.Text = text.Clip(text.Line(strings.TrimSpace(redactURLs(msg.Text))), maxMessage)
	if msg.Text == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.of[server]
	if m.of == nil {
		m.of = map[string][]Message{}
	}
	if all == nil && len(m.of) >= maxTalkers { // servers come and go with the config
		for other := range m.of {
			delete(m.of, other)
			break
		}
	}
	m.last = max(m.last+1, now.UnixNano())
	msg.Number, msg.At, msg.Times = m.last, now.UTC(), 1
	if n := len(all) - 1; n >= 0 && all[n].Kind == msg.Kind && all[n].Level == msg.Level &&
		all[n].Text == msg.Text {
		msg.Times += all[n].Times
		all = all[:n]
	}
	size := len(msg.Text)
	first := len(all)
	for first > max(0, len(all)-maxMessages+1) && size+len(all[first-1].Text) <= maxMessageBytes {
		first--
		size += len(all[first].Text)
	}
	m.of[server] = append(slices.Clone(all[first:]), msg)
}

// note keeps a message of a server.
func (c *Client) note(server string, m Message) { c.messages.add(server, c.o.Now(), m) }

// Messages returns the last messages of a server with a number above after, the oldest first.
func (c *Client) Messages(server string, after int64) []Message {
	c.messages.mu.Lock()
	defer c.messages.mu.Unlock()
	all := c.messages.of[server]
	i := slices.IndexFunc(all, func(m Message) bool { return m.Number > after })
	if i < 0 {
		return nil
	}
	return slices.Clone(all[i:])
}

// logMessage returns the message of a log notification. clean removes the server's secrets.
func logMessage(params rawjson.Object, clean func(string) string) Message {
	data := params.Get("data")
	said := rawjson.Text(data)
	if said == "" {
		said = string(data)
	}
	if logger := rawjson.Text(params.Get("logger")); logger != "" {
		said = logger + ": " + said
	}
	if len(said) > maxForwarded {
		said = "a log message of " + strconv.Itoa(len(said)) + " bytes"
	}
	level := text.Clip(text.Line(rawjson.Text(params.Get("level"))), 20)
	// clean the whole text, because a cut may halve a secret
	return Message{Kind: messageLog, Level: level, Text: clean(said)}
}
