package audit_test

import (
	"encoding/csv"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// hostile has texts of other people, each with the text that its cell must have.
var hostile = map[string]string{
	`=HYPERLINK("http://evil.example","x")`: `'=HYPERLINK("http://evil.example","x")`,
	"+1+1":                                  "'+1+1",
	"-2+3":                                  "'-2+3",
	"@SUM(A1)":                              "'@SUM(A1)",
	"\t=1":                                  "'\t=1",
	"\n=1":                                  "'\n=1",
	"\r=1":                                  "⟨U+000D⟩=1",
	"＝1":                                    "'＝1",
	"\u200b=1":                              "⟨U+200B⟩=1",
	"a,b;c\"d\"\ne":                         "a,b;c\"d\"\ne",
	"\u202etxt.exe":                         "⟨U+202E⟩txt.exe",
	"nul \x00":                              "nul ⟨U+0000⟩",
	"<b>é</b> 上海":                           "<b>é</b> 上海",
	"kim = admin, it is all ok":             "kim = admin, it is all ok",
	"x;=1+1;\"@a; -b;c=d":                   "x;'=1+1;\"'@a; '-b;c=d",
}

func TestCSV(t *testing.T) {
	var b strings.Builder
	c, err := audit.NewCSV(&b)
	require.OK(t, err)
	var want []string
	for in, out := range hostile {
		l := audit.Line{
			V: 1, Time: time.Date(2026, 11, 22, 14, 3, 5, 600, time.UTC), Kind: audit.KindEvent, Actor: in, Note: in, Rules: []string{in}, Ms: 1.5,
			Found: &audit.Matches{Callable: 2}, Delivered: true,
		}
		require.OK(t, c.Write(l))
		want = append(want, out)
	}
	rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	require.OK(t, err)
	if d := cmp.Diff(audit.Columns, rows[0]); d != "" {
		t.Errorf("columns (-want +got):\n%s", d)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	for n, row := range rows[1:] {
		if row[column["note"]] != want[n] || row[column["actor"]] != want[n] {
			t.Errorf("%q is read as %q, want %q", row[column["note"]], row[column["actor"]], want[n])
		}
		if row[column["time"]] != "2026-11-22T14:03:05.0000006Z" || row[column["ms"]] != "1.5" || row[column["delivered"]] != "true" || row[column["tool"]] != "" || !strings.HasPrefix(row[column["rules"]], `["`) {
			t.Errorf("row = %q", row)
		}
		for i, cell := range row {
			if cell != "" && strings.ContainsAny(cell[:1], "=+-@\t\r\n") {
				t.Errorf("%s begins as a formula: %q", rows[0][i], cell)
			}
		}
	}
	if first := strings.SplitN(b.String(), ",", 5); !cmp.Equal(first[:4], []string{"v", "time", "kind", "agent"}) {
		t.Errorf("the file begins with %q", first)
	}
	// A reader other than Go's sees the same cells.
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Log("no python3: only Go read the file")
		return
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", `import csv,sys
rows=list(csv.DictReader(sys.stdin))
sys.stdout.write("\x1e".join(r["note"] for r in rows))`)
	cmd.Stdin, cmd.Env = strings.NewReader(b.String()), []string{"PYTHONUTF8=1"}
	out, err := cmd.Output()
	require.OK(t, err)
	if d := cmp.Diff(strings.Join(want, "\x1e"), string(out)); d != "" {
		t.Errorf("as python reads it (-want +got):\n%s", d)
	}
}
