package dynamo

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
)

// A form says how one kind of document is stored. Each kind has the attributes that it had before
// all kinds had one store. So a table needs no conversion, and functions of both versions read and
// write the same items during a deploy and after a rollback.
type form struct {
	part, id string // the keys of the kind; a * at the end matches any text
	data     string // attribute of Data, a string
	mark     string // attribute of Mark; "": the product sets none
	until    string // attribute of the exact Keep; "": only expires_at, in whole seconds
	pages    int    // megabyte pages that ListDocs reads at most; 0: all

	bytes   bool // the attribute of Data is binary
	dropped bool // an item without data is an absent document
	empty   bool // an item without data is a document with no bytes
	update  bool // every write is an UpdateItem
	fixed   bool // the mark never changes, and a write requires it
}

// forms are in order of precedence: the first match counts.
var forms = []form{
	{part: "STOP", id: "STOP", data: "stop"},
	{part: "TOKENS", id: "*", data: "token", mark: "last_used", update: true},
	{part: "LOGIN#*", id: "*", data: "login"},
	// The id of a session is stored unencrypted: it is of little use an hour later, the table is
	// encrypted, and only one role reads these items. A key made from the server's credential would
	// hide the id. But then each item would let a reader test guesses of that credential.
	{part: "SESSION#*", id: "SESSION", data: "session_id", mark: "protocol_version"},
	// Earlier versions start every notice at revision 1. So a slot that was freed and used again
	// can have the revision that was read, although it has another event.
	{part: "OUTBOX#OPEN", id: "*", data: "doc", mark: "event_id", pages: 8, fixed: true},
	{part: "OUTBOX#SEEN", id: "*", data: "doc", empty: true},
	{part: "ASK#", id: "*", data: "agent", mark: "expires", until: "kept", pages: 4},
	{part: "ASK#*", id: "ASKED", data: "doc"},
	{part: "ASK#*", id: "ARGS#*", data: "arguments", bytes: true, until: "expires", dropped: true},
	{part: "GRANT#*", id: "GRANTED", data: "doc"},
	{part: "USED#*", id: "USED", data: "used_at"},
	{part: "PAGE#*", id: "PAGE", data: "server"},
	{part: "BASE#*", id: "*", data: "baseline"},
	{part: "SRV#*", id: "BASELINE", data: "baseline"}, // by server name, of an earlier version
	// Without a mark to keep, every write is a PutItem: the roles need no other right.
	{part: "CRED#*", id: "*", data: "data", bytes: true, pages: 8},
	{part: "*", id: "*", data: "data", bytes: true, mark: "mark", until: "keep", pages: 8},
}

// unnumbered is the revision that the driver gives an item without rev, which an earlier version
// wrote.
const unnumbered = 1 << 62

// formOf returns the form of the document at a key.
func formOf(k document.Key) form {
	for _, f := range forms {
		if matches(f.part, k.Part) && matches(f.id, k.ID) {
			return f
		}
	}
	panic("the last form is every document's")
}

func matches(pattern, s string) bool {
	prefix, isPrefix := strings.CutSuffix(pattern, "*")
	return pattern == s || isPrefix && strings.HasPrefix(s, prefix)
}

// markName returns the attribute of Mark. It is never "".
func (f form) markName() string { return cmp.Or(f.mark, "mark") }

// encode returns the attributes of a document without its key.
func (f form) encode(d document.Doc, writeID string) item {
	it := item{"rev": number(document.NextRev(d.Rev)), "write_id": text(writeID)}
	switch {
	case f.dropped && len(d.Data) == 0:
	case f.bytes:
		it[f.data] = &types.AttributeValueMemberB{Value: d.Data}
	default:
		it[f.data] = text(string(d.Data))
	}
	if d.Mark != "" {
		it[f.markName()] = text(d.Mark)
	}
	if !d.Keep.IsZero() {
		it["expires_at"] = number(secondAfter(d.Keep))
		if f.until != "" {
			it[f.until] = timeText(d.Keep)
		}
	}
	return it
}

// unset returns the names of the form's attributes that the item lacks. If keepMark is set, unset
// omits the mark.
func (f form) unset(it item, keepMark bool) (names []string) {
	for _, name := range []string{f.data, f.until, "expires_at", f.markName()} {
		if name != "" && it[name] == nil && (name != f.markName() || !keepMark) {
			names = append(names, name)
		}
	}
	return names
}

// decode returns the document of an item, without its key. An absent document has revision 0.
func (f form) decode(it item, now time.Time) (d document.Doc, err error) {
	if f.dropped && it[f.data] == nil {
		return document.Doc{}, nil
	}
	if d.Keep, err = f.keepOf(it); err != nil {
		return document.Doc{}, broken(it, err)
	}
	if !d.Keep.IsZero() && !now.Before(d.Keep) {
		return document.Doc{}, nil // expired; the table removes it days later
	}
	if d.Data = f.dataOf(it); d.Data == nil {
		return document.Doc{}, broken(it, fmt.Errorf("its attribute %q is missing", f.data))
	}
	if d.Rev = unnumbered; it["rev"] != nil {
		d.Rev, err = numberOf(it["rev"])
	}
	if err == nil && d.Rev < 1 {
		err = fmt.Errorf("its revision is %d", d.Rev)
	}
	if err != nil {
		return document.Doc{}, broken(it, err)
	}
	d.Mark = textOf(it[f.markName()])
	return d, nil
}

// dataOf returns the data of an item, nil if there is none.
func (f form) dataOf(it item) []byte {
	if f.bytes {
		return bytesOf(it[f.data])
	}
	if s, ok := it[f.data].(*types.AttributeValueMemberS); ok {
		return []byte(s.Value)
	}
	if f.empty && it[f.data] == nil {
		return []byte{}
	}
	return nil
}

// keepOf returns when the document of an item expires, or zero if it does not.
func (f form) keepOf(it item) (time.Time, error) {
	if it["expires_at"] == nil && it[f.until] == nil {
		return time.Time{}, nil
	}
	if f.until != "" {
		return timeOf(it, f.until)
	}
	seconds, err := numberOf(it["expires_at"])
	return time.Unix(seconds, 0).UTC(), err
}

// A condition is the requirement of a write for the stored item.
type condition struct {
	expression string
	names      map[string]string
	values     item
}

// require returns the condition for a write at rev. If rev is 0 or less, the document must be
// absent.
func (f form) require(rev int64, now time.Time) condition {
	if rev <= 0 {
		return f.life("attribute_not_exists(%s) OR %s <= :now", now)
	}
	c := f.present(now)
	if c.names["#rev"] = "rev"; rev == unnumbered {
		c.expression += " AND attribute_not_exists(#rev)"
	} else {
		c.expression += " AND #rev = :read"
		c.values[":read"] = number(rev)
	}
	return c
}

// present returns the condition that the document exists, at any revision.
func (f form) present(now time.Time) condition {
	return f.life("attribute_exists(%s) AND (attribute_not_exists(%[2]s) OR %[2]s > :now)", now)
}

// life returns a condition about the attribute that each document has, and about its expiry.
func (f form) life(format string, now time.Time) condition {
	exists, end, value := "PK", "expires_at", number(now.Unix())
	if f.dropped {
		exists = f.data
	}
	if f.until != "" {
		end, value = f.until, timeText(now)
	}
	return condition{
		expression: fmt.Sprintf(format, "#"+exists, "#"+end),
		names:      map[string]string{"#" + exists: exists, "#" + end: end},
		values:     item{":now": value},
	}
}

// secondAfter rounds t up to whole seconds, and never returns an earlier time: the table may remove
// an item after that second.
func secondAfter(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

func itemKey(k document.Key) item { return item{"PK": text(k.Part), "SK": text(k.ID)} }

// keyOf returns the key of an item.
func keyOf(it item) document.Key {
	return document.Key{Part: textOf(it["PK"]), ID: textOf(it["SK"])}
}
