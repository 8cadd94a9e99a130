package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestDescribe(t *testing.T) {
	gw := everyStatus(t)
	r := gw.Call("describe_tools", `{"names":["docs:delete_document","moved:convert_document","nowhere:x","denied:shred_document","docs:delete_document","waiting:upload_document"]}`)
	checkAnswer(t, "describe_tools", r.Text)
}

func TestDescribeBytes(t *testing.T) {
	const raw = `{"zeta":9007199254740993,"description":"a <b> & c","name":"odd","icons":[{"src":"x"}],"inputSchema":{"type":"object","default":1e2},"annotations":{"x":1}}`
	gw := serving(t, "", "", raw)
	if r := gw.Call("describe_tools", `{"names":["s:odd"]}`); !strings.Contains(r.Text, `"definition":`+raw+`}`) {
		t.Errorf("got %s", r.Text)
	}
	gw.load(map[string]string{"s": `"annotations":{"odd":{"readOnlyHint":true}}`})
	want := strings.Replace(raw, `{"x":1}`, `{"x":1,"readOnlyHint":true}`, 1)
	if r := gw.Call("describe_tools", `{"names":["s:odd"]}`); !strings.Contains(r.Text, `"call_with":"call_tool_read","definition":`+want+`}`) {
		t.Errorf("with the operator's hint: %s", r.Text)
	}
}

func TestDescribeNotFound(t *testing.T) {
	gw := everyStatus(t)
	raw, err := json.Marshal(map[string]any{"names": []string{strings.Repeat("ä", 5000), "a:\x00b"}})
	require.OK(t, err)
	want := fmt.Sprintf(`{"tools":[],"not_found":["%s…","a:�b"]}`, strings.Repeat("ä", 79))
	if r := gw.Call("describe_tools", string(raw)); r.Text != want {
		t.Errorf("got %s\nwant %s", r.Text, want)
	}
}
