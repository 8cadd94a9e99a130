package dynamo

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// The keys of a record, and the single partition of the decisions.
//
// Prompts and resources have separate sort keys, which an earlier program does not query. If an
// earlier program finds such a key among the decisions, it reads no decisions, and its cached
// decisions expire.
const (
	recordPK   = "SRV#"
	recordSK   = "TOOL#"
	promptSK   = "PROMPT#"
	resourceSK = "RES#" // then the SHA-256 of the URI, because a URI may be too long
	feedKey    = "records"
)

// encode returns the update that writes a record. The update sets individual attributes, so that
// the attributes of a newer program stay. If a sync writes, the record's position in the index also
// stays.
//
// The definitions are binary attributes, because JSON would lose their white space, and base64
// would need a third more of the 400 KB limit of an item. The attributes that the index "decisions"
// projects are separate attributes, too.
func encode(r approval.Record, writeID string) (types.Update, error) {
	set := item{
		"rev": number(r.Rev), "write_id": text(writeID), "updated_at": text(r.UpdatedAt.Format(timeLayout)),
		"state": text(string(r.State)), "disabled": &types.AttributeValueMemberBOOL{Value: r.Disabled},
		"approved_hash": text(string(r.ApprovedHash)), "current_hash": text(string(r.CurrentHash)),
	}
	var remove []string
	definitions := map[string][]byte{"approved": r.Approved, "current": r.Current, "undo_approved": nil}
	if r.Undo != nil {
		definitions["undo_approved"] = r.Undo.Approved
	}
	for name, definition := range definitions {
		if definition != nil {
			set[name] = &types.AttributeValueMemberB{Value: definition}
		} else {
			remove = append(remove, name)
		}
	}
	if verdicts := encodeVerdicts(r.Decision()); verdicts != nil {
		set["blocked"] = verdicts
	} else {
		remove = append(remove, "blocked")
	}
	if !r.DecidedAt.IsZero() {
		set["feed"], set["decided_at"] = text(feedKey), text(r.DecidedAt.UTC().Format(timeLayout))
	}
	key := recordKey(r.ID())
	r.Approved, r.Current = nil, nil
	data, err := rawjson.Marshal(r, r.Unknown)
	if err != nil {
		return types.Update{}, err
	}
	set["record"] = text(string(data))
	up := update(set, remove)
	up.Key = key
	return up, nil
}

// update returns a write that sets and removes attributes. DynamoDB reserves many
// names, so all attributes have aliases.
func update(set item, remove []string) types.Update {
	names, values := map[string]string{}, item{}
	var sets, removes []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		names["#"+name], values[":"+name] = name, set[name]
		sets = append(sets, "#"+name+" = :"+name)
	}
	slices.Sort(remove)
	for _, name := range remove {
		names["#"+name] = name
		removes = append(removes, "#"+name)
	}
	expression := "SET " + strings.Join(sets, ", ")
	if len(removes) > 0 {
		expression += " REMOVE " + strings.Join(removes, ", ")
	}
	return types.Update{UpdateExpression: &expression, ExpressionAttributeNames: names, ExpressionAttributeValues: values}
}

// updateInput returns an update as a separate request.
func updateInput(up types.Update) *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName: up.TableName, Key: up.Key, UpdateExpression: up.UpdateExpression,
		ConditionExpression:       up.ConditionExpression,
		ExpressionAttributeNames:  up.ExpressionAttributeNames,
		ExpressionAttributeValues: up.ExpressionAttributeValues,

		ReturnValuesOnConditionCheckFailure: up.ReturnValuesOnConditionCheckFailure,
	}
}

// decode returns the record of an item.
func decode(it item) (r approval.Record, err error) {
	if r.Unknown, err = rawjson.Unmarshal([]byte(textOf(it["record"])), &r); err != nil {
		return approval.Record{}, broken(it, err)
	}
	r.Approved, r.Current = bytesOf(it["approved"]), bytesOf(it["current"])
	if r.Undo != nil {
		r.Undo.Approved = bytesOf(it["undo_approved"])
	}
	return r, nil
}

// decodeDecision returns the decision of an item of the index.
func decodeDecision(it item) (approval.Decision, error) {
	id, isRecord := idOf(it)
	at, timeErr := time.Parse(timeLayout, textOf(it["decided_at"]))
	rev, revErr := numberOf(it["rev"])
	disabled, isBool := it["disabled"].(*types.AttributeValueMemberBOOL)
	if err := errors.Join(timeErr, revErr); err != nil || !isRecord || !isBool {
		return approval.Decision{}, broken(it, errors.Join(errors.New("the item is not a decision"), err))
	}
	d := approval.Decision{
		ID: id, Rev: rev, State: approval.State(textOf(it["state"])), Disabled: disabled.Value,
		ApprovedHash: tool.Hash(textOf(it["approved_hash"])), CurrentHash: tool.Hash(textOf(it["current_hash"])), DecidedAt: at,
	}
	if !decodeVerdicts(it["blocked"], &d) {
		return approval.Decision{}, broken(it, errors.New("the attribute blocked cannot be read"))
	}
	return d, nil
}

// idOf returns the id of the record in an item of the index; ok is false if the item is no record.
func idOf(it item) (id tool.ID, ok bool) {
	if id.Server, ok = strings.CutPrefix(textOf(it["PK"]), recordPK); !ok {
		return tool.ID{}, false
	}
	sk := textOf(it["SK"])
	if id.Name, ok = strings.CutPrefix(sk, recordSK); ok {
		return id, true
	}
	if id.Name, ok = strings.CutPrefix(sk, promptSK); ok {
		id.Kind = tool.Prompt
		return id, true
	}
	if verdicts, isMap := it["blocked"].(*types.AttributeValueMemberM); isMap {
		id.Name, id.Kind = textOf(verdicts.Value["uri"]), tool.Resource
	}
	return id, sk == resourceSK+id.Sum()
}

// decodeVerdicts decodes the result of encodeVerdicts; v is nil for an item without the attribute.
func decodeVerdicts(v types.AttributeValue, d *approval.Decision) bool {
	if v == nil {
		return true
	}
	verdicts, ok := v.(*types.AttributeValueMemberM)
	if !ok {
		return false
	}
	d.Endorsed = tool.Hash(textOf(verdicts.Value["endorsed"]))
	hashes, ok := verdicts.Value["hashes"].(*types.AttributeValueMemberL)
	if !ok {
		return verdicts.Value["hashes"] == nil
	}
	for _, hash := range hashes.Value {
		d.Blocked = append(d.Blocked, tool.Hash(textOf(hash)))
	}
	return true
}

// encodeVerdicts returns the attribute "blocked", or nil if d needs none. It contains more than
// blocked definitions, because the index projects only the attributes that were listed when the
// index was made.
func encodeVerdicts(d approval.Decision) types.AttributeValue {
	verdicts := item{}
	if len(d.Blocked) > 0 {
		var hashes []types.AttributeValue
		for _, hash := range d.Blocked {
			hashes = append(hashes, text(string(hash)))
		}
		verdicts["hashes"] = &types.AttributeValueMemberL{Value: hashes}
	}
	if d.Endorsed != "" {
		verdicts["endorsed"] = text(string(d.Endorsed))
	}
	if d.ID.Kind == tool.Resource { // its key has only the hash
		verdicts["uri"] = text(d.ID.Name)
	}
	if len(verdicts) == 0 {
		return nil
	}
	return &types.AttributeValueMemberM{Value: verdicts}
}

// auditKey returns the sort key of the line at a cursor.
func auditKey(p approval.Cursor) string { return p.Written.UTC().Format(timeLayout) + "#" + p.Tool }

// decodeEntry returns the audit line of an item.
func decodeEntry(it item) (e approval.Entry, err error) {
	if err = json.Unmarshal([]byte(textOf(it["entry"])), &e); err == nil {
		written, _, _ := strings.Cut(textOf(it["SK"]), "#")
		e.Written, err = time.Parse(timeLayout, written)
	}
	if err != nil {
		return approval.Entry{}, broken(it, err)
	}
	return e, nil
}

// writeIDOf returns the id of the write that made the item.
func writeIDOf(it item) (string, error) { return textOf(it["write_id"]), nil }

// encodeMark returns the key of an item of the index as one text, or "" for no key.
func encodeMark(key item) string {
	if len(key) == 0 {
		return ""
	}
	texts := map[string]string{}
	for name, v := range key {
		texts[name] = textOf(v)
	}
	mark, _ := json.Marshal(texts) // a map of strings always has a JSON form
	return string(mark)
}

// decodeMark is the inverse of encodeMark.
func decodeMark(mark string) (item, error) {
	if mark == "" {
		return nil, nil
	}
	var texts map[string]string
	if err := json.Unmarshal([]byte(mark), &texts); err != nil {
		return nil, fmt.Errorf("no page after %q: %w", mark, err)
	}
	key := item{}
	for name, s := range texts {
		key[name] = text(s)
	}
	return key, nil
}

func recordKey(id tool.ID) item {
	sk := recordSK + id.Name
	switch id.Kind {
	case tool.Prompt:
		sk = promptSK + id.Name
	case tool.Resource:
		sk = resourceSK + id.Sum()
	}
	return item{"PK": text(recordPK + id.Server), "SK": text(sk)}
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func timeText(t time.Time) types.AttributeValue { return text(t.UTC().Format(timeLayout)) }

// timeOf returns the time that timeText wrote into an item.
func timeOf(it item, name string) (time.Time, error) {
	t, err := time.Parse(timeLayout, textOf(it[name]))
	if err != nil {
		return time.Time{}, broken(it, err)
	}
	return t, nil
}

// numberOf returns the number of v.
func numberOf(v types.AttributeValue) (int64, error) {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return 0, errors.New("the attribute is not a number")
	}
	return strconv.ParseInt(n.Value, 10, 64)
}

// bytesOf returns the bytes of v, or nil if v has no bytes.
func bytesOf(v types.AttributeValue) []byte {
	if b, ok := v.(*types.AttributeValueMemberB); ok {
		return b.Value
	}
	return nil
}

// textOf returns the string of v, or "" if v is no string.
func textOf(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}
