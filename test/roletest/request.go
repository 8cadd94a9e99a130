package roletest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Of returns the actions that r, with the given body, requests from DynamoDB, S3, SSM, Secrets
// Manager, SQS, KMS or Lambda. For other services it returns nothing. Addresses of S3 must contain
// the bucket in the path. The prefix of secrets is portcullis. Of assumes that a secret without
// this prefix is the stack's own secret, and that an invoked function is the sync function.
func Of(r *http.Request, body []byte) ([]Request, error) {
	if name, operation, ok := strings.Cut(r.Header.Get("X-Amz-Target"), "."); ok {
		if strings.HasPrefix(name, "DynamoDB") {
			return ofDynamoDB(operation, body)
		}
		if name == "AmazonSQS" {
			return ofQueue(operation, body)
		}
		if name == "TrentService" {
			return ofKey(operation, body)
		}
		return ofSecrets(name, operation, body)
	}
	if strings.HasPrefix(r.URL.Path, "/2015-03-31/functions/") {
		return []Request{{Action: "lambda:InvokeFunction", Resource: Syncer}}, nil
	}
	if strings.HasPrefix(r.URL.Path, "/2015-03-31/") {
		return nil, nil
	}
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if key == "" {
		return []Request{{Action: "s3:ListBucket", Resource: Bucket}}, nil
	}
	action := map[string]string{
		http.MethodGet: "s3:GetObject", http.MethodHead: "s3:GetObject", http.MethodPut: "s3:PutObject", http.MethodDelete: "s3:DeleteObject",
	}[r.Method]
	return []Request{{Action: action, Resource: Object(key)}}, nil
}

// ofQueue returns the actions of a request to SQS. A queue whose name ends in .fifo is the queue of
// assemblies.
func ofQueue(operation string, body []byte) ([]Request, error) {
	var in struct{ QueueUrl string }
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("%s: %w", operation, err)
	}
	// A batch needs the same right as one message.
	q := Request{Action: "sqs:" + strings.TrimSuffix(operation, "Batch"), Resource: WorkQueue}
	if strings.HasSuffix(in.QueueUrl, ".fifo") {
		q.Resource = AssembleQueue
	}
	return []Request{q}, nil
}

// ofSecrets returns the actions of a request to SSM or Secrets Manager.
func ofSecrets(service, operation string, body []byte) ([]Request, error) {
	var in struct{ Name, SecretId string }
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("%s: %w", operation, err)
	}
	if name, ok := strings.CutPrefix(in.Name, "/portcullis/"); ok && service == "AmazonSSM" {
		if name == "console" { // the parameter of AdminClientSecret
			return []Request{{Action: "ssm:" + operation, Resource: ClientSecret}}, nil
		}
		return []Request{{Action: "ssm:" + operation, Resource: Parameter(name)}}, nil
	}
	if name, ok := strings.CutPrefix(in.SecretId, "portcullis/"); ok && service == "secretsmanager" {
		return []Request{{Action: "secretsmanager:" + operation, Resource: Secret(name)}}, nil
	}
	return nil, nil
}

// ofKey returns the actions of a request to KMS. It assumes that the key is the key of the vault.
func ofKey(operation string, body []byte) ([]Request, error) {
	var in struct{ EncryptionContext struct{ Place string } }
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("%s: %w", operation, err)
	}
	// The table of the request is the table of the stack, whose name the template does not know.
	parts := strings.Split(in.EncryptionContext.Place, "/")
	if len(parts) > 1 {
		parts[1] = "${Data.Outputs.TableName}"
	}
	return []Request{{Action: "kms:" + operation, Resource: VaultKey, Place: strings.Join(parts, "/")}}, nil
}

type attribute struct{ S string }

// An operation is the part of a DynamoDB input that IAM checks.
type operation struct {
	IndexName                 string
	Key, Item                 map[string]attribute
	KeyConditionExpression    string
	UpdateExpression          string
	ConditionExpression       string
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues map[string]attribute
	TransactItems             []map[string]operation
	RequestItems              map[string]struct{ Keys []map[string]attribute }
}

func ofDynamoDB(name string, body []byte) ([]Request, error) {
	var in operation
	// Numbers and bytes do not matter here. They are read as empty texts.
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	switch name {
	case "TransactWriteItems", "TransactGetItems":
		var all []Request
		for _, item := range in.TransactItems {
			for kind, part := range item {
				action := map[string]string{"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "Get": "GetItem", "ConditionCheck": "ConditionCheckItem"}[kind]
				all = append(all, part.request(action))
			}
		}
		return all, nil
	case "BatchGetItem":
		q := Request{Action: "dynamodb:BatchGetItem", Resource: Table}
		for _, table := range in.RequestItems {
			for _, key := range table.Keys {
				q.LeadingKeys = append(q.LeadingKeys, key["PK"].S)
			}
		}
		return []Request{q}, nil
	}
	return []Request{in.request(name)}, nil
}

// keywords are the words in expressions that are not names of attributes.
var keywords = []string{"SET", "REMOVE", "ADD", "DELETE", "AND", "OR", "NOT", "if_not_exists", "attribute_exists", "attribute_not_exists", "begins_with", "contains"}

// request returns the request for one item.
func (in operation) request(name string) Request {
	q := Request{Action: "dynamodb:" + name, Resource: Table}
	if in.IndexName != "" {
		q.Resource = Index(in.IndexName)
	}
	for _, item := range []map[string]attribute{in.Key, in.Item} {
		if pk, ok := item["PK"]; ok {
			q.LeadingKeys = append(q.LeadingKeys, pk.S)
		}
		for attribute := range item {
			q.Attributes = append(q.Attributes, attribute)
		}
	}
	// "PK = :pk AND …": the partition key comes first.
	if _, rest, ok := strings.Cut(in.KeyConditionExpression, " = "); ok {
		value, _, _ := strings.Cut(rest, " ")
		q.LeadingKeys = append(q.LeadingKeys, in.ExpressionAttributeValues[value].S)
	}
	for _, part := range strings.FieldsFunc(in.UpdateExpression+" "+in.ConditionExpression, func(r rune) bool { return strings.ContainsRune(" ,=<>()+-", r) }) {
		switch {
		case strings.HasPrefix(part, ":"), slices.Contains(keywords, part):
		case strings.HasPrefix(part, "#"):
			q.Attributes = append(q.Attributes, in.ExpressionAttributeNames[part])
		default:
			q.Attributes = append(q.Attributes, part)
		}
	}
	slices.Sort(q.Attributes)
	q.Attributes = slices.Compact(q.Attributes)
	return q
}
