package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestDescribeGivesDefinitionsOfOpenToolsAndReasonsOfLockedOnes(t *testing.T) {
	gw := everyStatus(t)
	r := gw.Call("describe_tools", `{"names":["docs:delete_document","moved:convert_document","nowhere:x","denied:shred_document","docs:delete_document","waiting:upload_document"]}`)
	checkAnswer(t, "describe_tools", r.Text)
}

func TestDescribeKeepsTheBytesOfADefinition(t *testing.T) {
	const raw = `{"zeta":9007199254740993,"description":"a <b> & c","name":"odd","icons":[{"src":"x"}],"inputSchema":{"type":"object","default":1e2},"annotations":{"x":1}}`
	gw := newFixture(t)
	gw.Serve("s", raw)
	gw.Configure(nil)
	gw.Sync()
	if r := gw.Call("describe_tools", `{"names":["s:odd"]}`); !strings.Contains(r.Text, `"definition":`+raw+`}`) {
		t.Errorf("got %s", r.Text)
	}
	gw.Configure(map[string]string{"s": `"annotations":{"odd":{"readOnlyHint":true}}`})
	gw.Sync()
	want := strings.Replace(raw, `{"x":1}`, `{"x":1,"readOnlyHint":true}`, 1)
	if r := gw.Call("describe_tools", `{"names":["s:odd"]}`); !strings.Contains(r.Text, `"call_with":"call_tool_read","definition":`+want+`}`) {
		t.Errorf("with the operator's hint: %s", r.Text)
	}
}

func TestNamesThatAreNotFoundAreCut(t *testing.T) {
	gw := everyStatus(t)
	raw, err := json.Marshal(map[string]any{"names": []string{strings.Repeat("ä", 5000), "a:\x00b"}})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`{"tools":[],"not_found":["%s…","a:\u0000b"]}`, strings.Repeat("ä", 40))
	if r := gw.Call("describe_tools", string(raw)); r.Text != want {
		t.Errorf("got %s\nwant %s", r.Text, want)
	}
}

func TestBadNamesAreRefused(t *testing.T) {
	gw := everyStatus(t)
	for args, want := range map[string]string{
		`{}`:                        "names is missing",
		`{"names":["a:b",{}]}`:      "names[1] must be a string of the form server:tool, not an object",
		`{"names":"docs:read"}`:     "names must be a list of 1 to 10",
		`{"names":[],"detail":"x"}`: `unknown argument "detail"`,
	} {
		if r := gw.Call("describe_tools", args); !r.IsError || !strings.Contains(r.Text, want) {
			t.Errorf("%s: %s, want %q", args, r.Text, want)
		}
	}
}
