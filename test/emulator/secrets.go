package emulator

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/klauspost/compress/zstd"

	"github.com/portcullis-mcp/portcullis/pkg/aws/awsjson"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/secrettest"
)

// checkSecrets fails the test if an item, an object or a line of a log contains a secret of a
// sign-in.
func checkSecrets(t testing.TB, endpoint string) {
	t.Helper()
	if !secrettest.Issued() {
		return
	}
	var tables struct{ TableNames []string }
	call(t, endpoint, "dynamodb", "DynamoDB_20120810.ListTables", map[string]any{}, &tables)
	for _, name := range tables.TableNames {
		in := map[string]any{"TableName": name}
		readPages(t, endpoint, "DynamoDB_20120810.Scan", in, "LastEvaluatedKey", "ExclusiveStartKey")
	}
	var groups struct {
		LogGroups []struct{ LogGroupName string }
	}
	call(t, endpoint, "logs", "Logs_20140328.DescribeLogGroups", map[string]any{}, &groups)
	for _, g := range groups.LogGroups {
		in := map[string]any{"logGroupName": g.LogGroupName}
		readPages(t, endpoint, "Logs_20140328.FilterLogEvents", in, "nextToken", "nextToken")
	}
	checkObjects(t, endpoint)
}

// readPages searches all pages of a list. The member next of an answer becomes the member after of
// the next request.
func readPages(t testing.TB, endpoint, operation string, in map[string]any, next, after string) {
	t.Helper()
	place, err := json.Marshal(in)
	require.OK(t, err)
	service := "dynamodb"
	if after == next {
		service = "logs"
	}
	for {
		var page json.RawMessage
		call(t, endpoint, service, operation, in, &page)
		secrettest.Absent(t, operation+" of "+string(place), string(page))
		if in[after] = require.JSON[map[string]any](t, page)[next]; in[after] == nil {
			return
		}
	}
}

func call(t testing.TB, endpoint, service, operation string, in, out any) {
	t.Helper()
	require.OK(t, awsjson.New(Config(endpoint), service).Call(context.Background(), operation, in, out))
}

func checkObjects(t testing.TB, endpoint string) {
	t.Helper()
	ctx, c := context.Background(), S3(endpoint)
	buckets, err := c.ListBuckets(ctx, &s3.ListBucketsInput{})
	require.OK(t, err)
	for _, b := range buckets.Buckets {
		pages := s3.NewListObjectsV2Paginator(c, &s3.ListObjectsV2Input{Bucket: b.Name})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			require.OK(t, err)
			for _, o := range page.Contents {
				object, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: b.Name, Key: o.Key})
				require.OK(t, err)
				data, err := io.ReadAll(object.Body)
				require.OK(t, err)
				secrettest.Absent(t, *b.Name+"/"+*o.Key, uncompressed(data))
			}
		}
	}
}

// uncompressed returns the data of an object that may be compressed.
func uncompressed(data []byte) string {
	r, err := zstd.NewReader(nil)
	if err != nil {
		return string(data)
	}
	defer r.Close()
	if plain, err := r.DecodeAll(data, nil); err == nil {
		return string(plain)
	}
	return string(data)
}
