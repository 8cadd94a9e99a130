package dynamo

import (
	"context"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// A recordRevision is a record of a server, or only its key and revision from a short read.
type recordRevision struct {
	approval.Record
	key, revision string
}

func decodeRevised(it item) (r recordRevision, err error) {
	if r, err = decodeRevision(it); err == nil {
		r.Record, err = decode(it)
	}
	return r, err
}

// decodeRevision decodes only the revision, not the record. Each write has its own id.
func decodeRevision(it item) (recordRevision, error) {
	n, err := numberOf(it["rev"])
	if err != nil {
		return recordRevision{}, broken(it, err)
	}
	return recordRevision{Record: approval.Record{Rev: n}, key: textOf(it["SK"]), revision: textOf(it["write_id"])}, nil
}

// etagOf returns the ETag of a server's records, in the order of their keys.
func etagOf(server string, all []recordRevision) string {
	var m approval.ETagHash
	for _, r := range all {
		m.Add(r.key, strconv.FormatInt(r.Rev, 10)+" "+r.revision)
	}
	return m.ETag(server)
}

// RecordsIfChanged implements [approval.Store]. A read that finds no change costs as many read
// units as a read of all records. It saves the transfer and the decoding of the records.
func (s *Store) RecordsIfChanged(ctx context.Context, server, mark string) (all []approval.Record, now string, err error) {
	defer store.Wrap(&err, "approvals of %q", server)
	if mark != "" {
		in := recordsOf(server)
		in.ProjectionExpression = aws.String("SK, #rev, write_id")
		in.ExpressionAttributeNames = map[string]string{"#rev": "rev"}
		short, err := query(ctx, s, in, decodeRevision)
		if err != nil {
			return nil, "", err
		}
		if etagOf(server, short) == mark {
			return nil, "", approval.ErrUnchanged
		}
	}
	read, err := query(ctx, s, recordsOf(server), decodeRevised)
	if err != nil {
		return nil, "", err
	}
	now = etagOf(server, read)
	for _, r := range read {
		all = append(all, r.Record)
	}
	slices.SortFunc(all, func(a, b approval.Record) int { return a.ID().Compare(b.ID()) })
	return all, now, nil
}

// recordsOf returns a query with strong consistency for all records of a server. One query reads
// all kinds: from the first key of a prompt to just after the last key of a tool.
func recordsOf(server string) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("PK = :pk AND SK BETWEEN :from AND :to"),
		ExpressionAttributeValues: item{":pk": text(recordPK + server), ":from": text(promptSK), ":to": text("TOOL$")},
		ConsistentRead:            aws.Bool(true),
	}
}
