package scale

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	s3store "github.com/portcullis-mcp/portcullis/pkg/store/s3"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// starts is the number of cold starts in a round.
const starts = 4

// tableMost is the largest number of tools whose records the test writes to the emulator's table,
// because a write takes 6 ms. With more tools, the table contains only one record, which shows a
// reader that no record was lost.
const tableMost = 10_000

// coldQuery is the first search after a cold start.
const coldQuery = `{"query":"create a calendar event"}`

// deploy stores the catalog in a bucket. It uses the sync function. If the emulator is too slow for
// this size, it copies the program's folder.
func (c *contender) deploy(t *testing.T, endpoint string, n int, crowd *upstreamtest.Crowd) {
	t.Helper()
	c.meter = newMeter(t, endpoint)
	c.stack = lambdatest.NewStack(t, endpoint, c.functions, map[string]string{
		"PORTCULLIS_AUTH": "none", "AWS_ENDPOINT_URL": c.meter.URL,
	})
	c.stack.Configure(crowd.Config(""))
	if n <= tableMost {
		c.syncByFunction(t, n)
	} else {
		c.upload(t, endpoint)
	}
	c.open(t, n)
	c.figures.add("stored", n, c.inBucket(t, endpoint))
}

// syncByFunction syncs the fleet with the sync function.
func (c *contender) syncByFunction(t *testing.T, n int) {
	t.Helper()
	f := c.stack.Start(t, "sync", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "1024", "PORTCULLIS_STREAMING", "url") // has 15 minutes
	defer f.Stop()
	if a := f.Invoke([]byte(`{}`)); a.Failed {
		t.Fatalf("%s: sync: %s\n%.3000s", c.name, a.Payload, a.Output)
	}
	c.figures.add("functionPeak", n, local.UsageOf(t, f.PID()).Peak)
}

// upload stores the snapshot of the folder: this commit's snapshot in the form for buckets, and an
// older commit's snapshot unchanged. The table gets the only record that readers need.
func (c *contender) upload(t *testing.T, endpoint string) {
	t.Helper()
	folder, bucket := dir.New(c.dir), c.stack.Bucket
	snap, err := catalog.Load(t.Context(), folder, nil)
	require.OK(t, err)
	client := emulator.S3(endpoint)
	objects := s3store.New(client, bucket)
	if c.name == "now" {
		was := snap.Current() // copied without its list of objects
		_, err = catalog.Save(t.Context(), objects, snap, catalog.Current{
			Config: was.Config, StartedAt: was.StartedAt, SyncedAt: was.SyncedAt,
			Outcomes: was.Outcomes, Servers: was.Servers, Baselines: was.Baselines,
		}, object.IfAbsent)
		require.OK(t, err)
	}
	require.OK(t, fs.WalkDir(os.DirFS(c.dir), "catalog", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || c.name == "now" && (path == catalog.CurrentKey || filepath.Ext(path) != ".json") {
			return err
		}
		f, err := os.Open(filepath.Join(c.dir, path))
		if err == nil {
			defer func() { _ = f.Close() }()
			_, err = client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &path, Body: f})
		}
		return err
	}))
	c.putWitness(t, endpoint, snap)
}

// putWitness copies the one record that shows a reader that the table was not lost.
func (c *contender) putWitness(t *testing.T, endpoint string, snap *catalog.Snapshot) {
	t.Helper()
	i, ok := snap.Witness()
	if !ok {
		return
	}
	records, err := bolt.Open(filepath.Join(c.dir, "approvals.db"), nil)
	require.OK(t, err)
	defer func() { _ = records.Close() }()
	r, err := records.Get(t.Context(), snap.ID(i))
	require.OK(t, err)
	table := dynamo.New(dynamodb.NewFromConfig(emulator.Config(endpoint)), c.stack.Env["PORTCULLIS_TABLE"], nil)
	of := r.Rev
	for r.Rev = 0; r.Rev < of; { // one write for each revision
		r, err = table.Put(t.Context(), r, nil)
		require.OK(t, err)
	}
}

// open measures how long this program takes to load the snapshot of a folder in the newest format.
func (c *contender) open(t *testing.T, n int) {
	t.Helper()
	if c.name != "now" {
		return
	}
	for range 2 * starts {
		began := time.Now()
		snap, err := catalog.Load(context.Background(), dir.New(c.dir), nil)
		require.OK(t, err)
		c.figures.add("open", n, milliseconds(time.Since(began)))
		if snap.Len() < n {
			t.Errorf("the snapshot has %d tools, want %d", snap.Len(), n)
		}
	}
}

// inBucket returns the size of the snapshot in the bucket, in MB.
func (c *contender) inBucket(t *testing.T, endpoint string) float64 {
	t.Helper()
	prefix, total := "catalog/", int64(0)
	pages := s3.NewListObjectsV2Paginator(emulator.S3(endpoint), &s3.ListObjectsV2Input{Bucket: &c.stack.Bucket, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		require.OK(t, err)
		for _, o := range page.Contents {
			if *o.Key != config.Key && filepath.Ext(*o.Key) != ".json" {
				total += *o.Size
			}
		}
	}
	return float64(total) / 1e6
}

// coldStart starts the function that agents call and makes one search.
func (c *contender) coldStart(t *testing.T, n int) {
	t.Helper()
	c.meter.take()
	began := time.Now()
	f := c.stack.Start(t, "mcp", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "1024")
	r := f.Call("retrieve_tools", coldQuery)
	took := milliseconds(time.Since(began))
	transfer := milliseconds(c.meter.take().objects)
	if r.IsError {
		t.Fatalf("%s: the first search answers %s\n%.3000s", c.name, r.Text, f.Output())
	}
	c.figures.add("ready", n, milliseconds(f.Started))
	c.figures.add("cold", n, took)
	c.figures.add("transfer", n, transfer)
	c.figures.add("own", n, took-transfer)
	c.figures.add("coldPeak", n, local.UsageOf(t, f.PID()).Peak)
	f.Stop()
}

// idleSearch counts how many decisions a search reads if nobody has decided anything since the last
// search.
func (c *contender) idleSearch(t *testing.T, n int) {
	t.Helper()
	f := c.stack.Start(t, "mcp", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "1024")
	defer f.Stop()
	f.Call("retrieve_tools", coldQuery)
	time.Sleep(2500 * time.Millisecond) // until the cached decisions are too old
	c.meter.take()
	f.Call("retrieve_tools", coldQuery)
	c.figures.add("feed", n, c.meter.take().feed)
}
