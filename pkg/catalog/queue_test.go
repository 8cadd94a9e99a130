package catalog_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const sampleJob = `{"format":1,"run":{"began":"2026-11-20T12:00:00.000000007Z","config":"v1","all":true},"servers":["fs","git"]}`

func TestJob(t *testing.T) {
	want := catalog.Job{Round: catalog.Round{Began: time.Date(2026, 11, 20, 12, 0, 0, 7, time.UTC), Config: "v1", All: true}, Servers: []string{"fs", "git"}}
	text, err := want.Encode()
	require.OK(t, err)
	if string(text) != sampleJob {
		t.Errorf("%s, want %s", text, sampleJob)
	}
	got, err := catalog.ParseJob([]byte(sampleJob))
	require.OK(t, err)
	wantEqual(t, "job", want, got)
}

func TestJobRefused(t *testing.T) {
	for body, want := range map[string]string{
		``:                        "EOF",
		`x`:                       "invalid",
		`[]`:                      "array",
		`{}`:                      "format 0",
		`{"format":2,"later":{}}`: "format 2, this program reads 1",
		`{"format":1}`:            "run.began",
		sampleJob + `{}`:          "after top-level",
		strings.Replace(sampleJob, `"servers"`, `"names"`, 1):                            "names",
		strings.Replace(sampleJob, `"fs"`, `""`, 1):                                      "a name is empty",
		strings.Replace(sampleJob, `"fs"`, `7`, 1):                                       "servers",
		strings.Replace(sampleJob, `"all":true`, `"all":"x"`, 1):                         "all",
		strings.Replace(sampleJob, `"fs"`, `"a","b","c","d","e","f","g","h","i","j"`, 1): "at most 10",
	} {
		if _, err := catalog.ParseJob([]byte(body)); !errors.Is(err, catalog.ErrJob) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// If ParseJob accepts bytes, Encode returns the same bytes.
func FuzzParseJob(f *testing.F) {
	f.Add([]byte(sampleJob))
	f.Add([]byte(`{"format":1,"run":{"began":"2026-11-20T12:00:00+01:00"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		job, err := catalog.ParseJob(data)
		if err != nil {
			if !errors.Is(err, catalog.ErrJob) {
				t.Errorf("%q: %v", data, err)
			}
			return
		}
		text, err := job.Encode()
		require.OK(t, err)
		again, err := catalog.ParseJob(text)
		require.OK(t, err)
		if !again.Round.Began.Equal(job.Round.Began) || !cmp.Equal(again.Servers, job.Servers) {
			t.Errorf("%q became %s", data, text)
		}
	})
}
