// Package fanout spreads a sync over many processes by queues. A [Planner] finds out which servers are
// due and sends their names, ten a message; a [Worker] asks the servers of a message and stores what it
// finds, and asks for an assembly, which makes the catalog of that. What each does is done by a
// [catalog.Syncer]; here is who asks whom, and what a message that is lost, late, doubled or damaged comes to.
package fanout

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
)

const (
	// format is the number of the form of messages. A process refuses messages of another form.
	format = 1

	// maxServers is how many servers a message names at most: as many as one worker asks within its
	// time even if each of them hangs.
	maxServers = 10
)

// ErrJob says that a message holds no job, or none that this program knows.
var ErrJob = errors.New("message cannot be read")

// A Job asks for a part of a round: that these servers are asked or, without any, that the catalog
// is assembled.
type Job struct {
	Run     catalog.Run
	Servers []string
}

// A form is a [Job] as it is sent.
type form struct {
	Format  int         `json:"format"`
	Run     catalog.Run `json:"run"`
	Servers []string    `json:"servers,omitempty"`
}

// Encode returns the message as it is sent, as JSON.
func (j Job) Encode() ([]byte, error) { return json.Marshal(form{format, j.Run, j.Servers}) }

// ParseJob reads what [Job.Encode] returns; its error is an [ErrJob].
func ParseJob(data []byte) (Job, error) {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return Job{}, fmt.Errorf("%w: %w", ErrJob, err)
	}
	if head.Format != format {
		return Job{}, fmt.Errorf("%w: it is of form %d, this program knows %d", ErrJob, head.Format, format)
	}
	var f form
	if err := json.Unmarshal(data, &f, json.RejectUnknownMembers(true)); err != nil {
		return Job{}, fmt.Errorf("%w: %w", ErrJob, err)
	}
	switch {
	case f.Run.Began.IsZero():
		return Job{}, fmt.Errorf("%w: run.began is missing", ErrJob)
	case len(f.Servers) > maxServers:
		return Job{}, fmt.Errorf("%w: servers: %d of them, at most %d", ErrJob, len(f.Servers), maxServers)
	}
	for _, name := range f.Servers {
		if name == "" {
			return Job{}, fmt.Errorf("%w: servers: a name is empty", ErrJob)
		}
	}
	return Job{f.Run, f.Servers}, nil
}
