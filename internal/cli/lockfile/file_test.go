package lockfile_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/portcullis-mcp/portcullis/internal/cli/lockfile"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// hash returns a hash that consists of one letter.
func hash(letter string) tool.Hash { return tool.Hash(strings.Repeat(letter, 64)) }

func id(s string) tool.ID {
	id, err := tool.ParseID(s)
	if err != nil {
		panic(err)
	}
	return id
}

var sample = lockfile.File{
	id("mail:send"):                    {Hash: hash("a"), Summary: "Send a message."},
	id("mail:list"):                    {Hash: hash("b"), Summary: "List <messages> & \"more\"."},
	id("mail:prompt:reply"):            {Hash: hash("c")},
	id("docs:resource:docs://a"):       {Hash: hash("d"), Pending: true},
	id("docs:resource:docs://{+path}"): {Hash: hash("e"), Summary: "Any page.", Note: "Read it.\nIt is harmless."},
}

func TestBytes(t *testing.T) {
	golden.Check(t, "testdata/sample.lock.json", string(sample.Bytes()))
}

// The same entries always give the same file, and Parse can read the file.
func TestWriteIsStable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		f := random(r)
		data := f.Bytes()
		got, err := lockfile.Parse(data)
		require.OK(t, err)
		if diff := cmp.Diff(f, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("read (-written +read):\n%s", diff)
		}
		again := lockfile.File{}
		ids := f.IDs()
		r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		for _, id := range ids {
			again[id] = f[id]
		}
		if !bytes.Equal(data, again.Bytes()) || !bytes.Equal(data, got.Bytes()) {
			t.Fatalf("the same entries are written in two ways:\n%s", data)
		}
	}
}

// random returns a random file with realistic entries.
func random(r *rand.Rand) lockfile.File {
	f := lockfile.File{}
	for range r.IntN(12) {
		kind := []tool.Kind{tool.Tool, tool.Prompt, tool.Resource}[r.IntN(3)]
		name := fmt.Sprintf("n.%c_%d", 'a'+r.IntN(5), r.IntN(9))
		if kind == tool.Resource {
			name = "docs://" + name + `/"\é`
		}
		e := lockfile.Entry{Hash: hash(string("0123456789abcdef"[r.IntN(16)])), Pending: r.IntN(3) == 0}
		if r.IntN(2) == 0 {
			e.Summary = lockfile.Summary("Does \u202e it\u200b <b>now</b>. And more.")
		}
		if r.IntN(4) == 0 {
			e.Note = "why\n\tnot"
		}
		f[tool.ID{Server: fmt.Sprintf("s%d", r.IntN(4)), Name: name, Kind: kind}] = e
	}
	return f
}

func TestParseFaults(t *testing.T) {
	entry := `{"version": 1, "servers": {"mail": {"tools": {"send": %s}}}}`
	for _, tt := range []struct{ name, data, want string }{
		{"empty", "", "1:1: not JSON: the file is empty"},
		{"broken", "{\n  \"version\": 1,\n}", "2:15: not JSON: remove the comma before the closing bracket"},
		{"cut", `{"version": 1, "servers": {`, "1:28: not JSON: the file ends before the object is closed"},
		{"comment", "{ // mine\n}", "1:3: not JSON: comments are not part of JSON; remove them"},
		{"a list", "[]", "want an object"},
		{"no version", `{"servers": {}}`, "version: is missing: this is no approvals.lock.json, or is older than the format; portcullis approvals write writes version 1"},
		{"version 0", `{"version": 0, "servers": {}}`, "1:13: version: is 0, which no portcullis writes; want 1"},
		{"a newer version", `{"version": 2, "future": {}}`, "1:13: version: is 2, but this portcullis reads only 1: a newer portcullis wrote the file, so use that version"},
		{"version as text", `{"version": "1", "servers": {}}`, "1:13: version: want a number, 1"},
		{"no servers", `{"version": 1}`, "servers: is missing"},
		{"a conflict", "{\n<<<<<<< HEAD\n  \"version\": 1\n=======\n",
			"2:1: a merge left its marks here (<<<<<<< HEAD): finish the merge, or remove the " +
				"file and write it again with portcullis approvals write"},
		{"unknown member", `{"version": 1, "server": {}, "servers": {}}`, "1:26: server: unknown key; write servers"},
		{"unknown kind", `{"version": 1, "servers": {"a": {"tool": {}, "x": {}}}}`, "1:42: servers.a.tool: unknown key; write tools\n1:51: servers.a.x: unknown key; it takes tools, prompts, resources"},
		{"unknown member of an entry", fmt.Sprintf(entry, `{"hsh": "", "hash": "`+string(hash("a"))+`"}`), "1:63: servers.mail.tools.send.hsh: unknown key; write hash"},
		{"the same tool twice", `{"version": 1, "servers": {"a": {"tools": {"x": {"hash": "` + string(hash("a")) + `"},` + "\n" + `"x": {"hash": "` + string(hash("b")) + `"}}}}}`, "2:6: servers.a.tools.x: duplicate key"},
		{"no hash", fmt.Sprintf(entry, `{}`), "1:55: servers.mail.tools.send: hash is missing"},
		{"a short hash", fmt.Sprintf(entry, `{"hash": "abc"}`), "1:64: servers.mail.tools.send.hash: want 64 of 0-9 a-f, as the gateway shows them"},
		{"a hash in capitals", fmt.Sprintf(entry, `{"hash": "`+string(hash("A"))+`"}`), "1:64: servers.mail.tools.send.hash: want 64 of 0-9 a-f, as the gateway shows them"},
		{"a shape", fmt.Sprintf(entry, `{"hash": "`+string(hash("a"))+`", "shape": "x"}`), "1:141: servers.mail.tools.send.shape: is reserved for a newer portcullis: remove it, or leave it empty"},
		{"pending as text", fmt.Sprintf(entry, `{"hash": "`+string(hash("a"))+`", "pending": "yes"}`), "1:143: servers.mail.tools.send.pending: want true or false"},
		{"a name that no tool has", strings.ReplaceAll(fmt.Sprintf(entry, `{}`), "send", "a b"), `1:54: servers.mail.tools["a b"]: tool name "a b" holds a character other than A-Z, a-z, 0-9 and _.-`},
		{"a name that no server has", strings.ReplaceAll(fmt.Sprintf(entry, `{}`), "mail", "a:b"), `1:35: servers["a:b"]: "a:b" cannot be the name of a server`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := lockfile.Parse([]byte(tt.data))
			if err == nil || err.Error() != tt.want {
				t.Errorf("Parse:\n%v\nwant\n%s", err, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample.Bytes())
	f.Add([]byte(`{"version": 1, "servers": {"a": {"tools": {"x": {"hash": "` + hash("a") + `", "summary": " a\u202e  b ", "note": " "}}}}}`))
	f.Add([]byte("<<<<<<< HEAD"))
	f.Add([]byte(`{"version": 1, "servers": {"a": {}, "a": null}, "x": [[[]]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := lockfile.Parse(data)
		if err != nil {
			if err.Error() == "" {
				t.Error("the error has no text")
			}
			return
		}
		written := file.Bytes()
		again, err := lockfile.Parse(written)
		if err != nil {
			t.Fatalf("%v in the written file:\n%s", err, written)
		}
		if diff := cmp.Diff(file, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("read (-first +again):\n%s", diff)
		}
	})
}

func TestCompare(t *testing.T) {
	item := func(name, letter string, s lockfile.State) lockfile.Item {
		return lockfile.Item{ID: id(name), Hash: hash(letter), Standing: s}
	}
	f := lockfile.File{}
	for _, name := range []string{"approved", "open", "changed", "changed_approved", "waits", "blocked", "disabled", "denied", "gone"} {
		f[id("s:"+name)] = lockfile.Entry{Hash: hash("a")}
	}
	for _, name := range []string{"pending", "merged", "refused", "outdated"} {
		f[id("s:"+name)] = lockfile.Entry{Hash: hash("a"), Pending: true}
	}
	items := []lockfile.Item{
		item("s:approved", "a", lockfile.Approved), item("s:open", "a", lockfile.Open),
		item("s:changed", "b", lockfile.Waiting), item("s:changed_approved", "b", lockfile.Approved),
		item("s:waits", "a", lockfile.Waiting), item("s:blocked", "a", lockfile.Blocked), item("s:disabled", "a", lockfile.Disabled), item("s:denied", "a", lockfile.Denied),
		item("s:pending", "a", lockfile.Waiting), item("s:merged", "a", lockfile.Approved), item("s:refused", "a", lockfile.Blocked), item("s:outdated", "b", lockfile.Waiting),
		item("t:approved", "a", lockfile.Approved), item("t:waits", "a", lockfile.Waiting),
		item("t:blocked", "a", lockfile.Blocked), item("t:disabled", "a", lockfile.Disabled), item("t:denied", "a", lockfile.Denied), item("t:open", "a", lockfile.Open),
	}
	var got []string
	for _, d := range lockfile.Compare(f, items) {
		got = append(got, fmt.Sprintf("%v %s %s %t", d.ID, d.What, d.Standing, d.IsDrift()))
	}
	want := []string{
		"s:blocked not_approved blocked true", "s:changed changed waits true", "s:changed_approved changed approved true", "s:denied not_approved denied true",
		"s:disabled not_approved disabled true", "s:gone removed  true", "s:outdated changed waits true", "s:pending pending waits false", "s:refused not_approved blocked true",
		"s:waits not_approved waits true", "t:approved unlisted approved true", "t:waits new waits true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Compare (-want +got):\n%s", diff)
	}
	// A file from Take does not differ from its gateway, unless it omits waiting items.
	for _, d := range lockfile.Compare(lockfile.Take(f, items, true), items) {
		if d.IsDrift() {
			t.Errorf("a file from Take differs from its gateway: %+v", d)
		}
	}
	for _, d := range lockfile.Compare(lockfile.Take(f, items, false), items) {
		if d.What != lockfile.New {
			t.Errorf("a file from Take differs from its gateway: %+v", d)
		}
	}
}

func TestTakeKeepsNotesOfTheSameDefinition(t *testing.T) {
	before := lockfile.File{id("a:x"): {Hash: hash("a"), Note: "read"}, id("a:y"): {Hash: hash("a"), Note: "read"}}
	got := lockfile.Take(before, []lockfile.Item{
		{ID: id("a:x"), Hash: hash("a"), Standing: lockfile.Approved, Summary: "It is.\u202e More."}, {ID: id("a:y"), Hash: hash("b"), Standing: lockfile.Approved},
	}, false)
	want := lockfile.File{id("a:x"): {Hash: hash("a"), Note: "read", Summary: "It is."}, id("a:y"): {Hash: hash("b")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Take (-want +got):\n%s", diff)
	}
	if c := lockfile.Difference(before, got); c != (lockfile.Count{Changed: 1}) {
		t.Errorf("Difference = %+v, want one changed entry", c)
	}
}

// The file in the docs is valid.
func TestDocs(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/approvals-as-code.md")
	require.OK(t, err)
	_, rest, _ := strings.Cut(string(doc), "```json\n")
	block, _, ok := strings.Cut(rest, "```")
	if _, err := lockfile.Parse([]byte(block)); !ok || err != nil {
		t.Errorf("%v in\n%s", err, block)
	}
}
