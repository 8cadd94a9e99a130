// Package refusals_test checks that the API, the pages and the commands refuse a decision for the
// same reason with the same text.
package refusals_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/console"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestMain(m *testing.M) { os.Exit(programtest.Main(m.Run)) }

// A world is a gateway on a port of this machine, and its three kinds of clients.
type world struct {
	*admintest.Fixture
	actor decide.Actor
}

func newWorld(t *testing.T) *world {
	w := &world{Fixture: admintest.New(t), actor: decide.Actor{Name: "ann", Rights: identity.Everything()}}
	w.Console.Actor = func(*http.Request) (decide.Actor, error) { return w.actor, nil }
	w.Open()
	return w
}

// An attempt is one decision in the form for each place: the API, the page and the command. ""
// means that the place cannot send the decision.
type attempt struct {
	api, body string
	page      string
	form      url.Values
	command   []string
}

// An answer is the refusal of a place.
type answer struct{ code, text string }

func (w *world) askAPI(a attempt) answer {
	got := w.Send(a.api, a.body)
	out := require.JSON[struct {
		Code, Detail string
		Tools        []struct{ Code, Detail string }
	}](w.T, got.Body)
	for _, one := range out.Tools {
		if one.Code != "" {
			out.Code, out.Detail = one.Code, one.Detail
		}
	}
	return answer{out.Code, out.Detail}
}

var tags = regexp.MustCompile(`<[^>]*>`)

func (w *world) askPage(a attempt) answer {
	page := w.Submit(a.page, a.form).Body
	return answer{text: html.UnescapeString(tags.ReplaceAllString(page, ""))}
}

func (w *world) askCommand(a attempt) answer {
	served := httptest.NewServer(console.New(w.Console))
	defer served.Close()
	cmd := exec.CommandContext(w.T.Context(), programtest.Build(w.T), a.command...)
	cmd.Args = append(cmd.Args, "--url", served.URL)
	cmd.Env = append(os.Environ(), "PORTCULLIS_TOKEN=any")
	out, err := cmd.CombinedOutput()
	if err == nil && !strings.Contains(string(out), "left out") {
		w.T.Errorf("portcullis %s is not refused: %s", strings.Join(a.command, " "), out)
	}
	return answer{text: string(out)}
}

// about returns the attempt to carry out an action on the current definition of an item, with a
// note.
func (w *world) about(id, action, note string) attempt {
	shown := w.shown(id)
	return w.named(id, action, shown.Hash, shown.Rev, note)
}

// A seen contains the definition of an item that a person has seen.
type seen struct {
	Hash string
	Rev  int64
}

func (w *world) shown(id string) seen {
	item := require.JSON[struct {
		Hash   string
		Record struct{ Rev int64 }
	}](w.T, w.Send(address(id), "").Body)
	return seen{item.Hash, max(item.Record.Rev, 1)}
}

func address(id string) string {
	server, name, _ := strings.Cut(id, ":")
	return "/admin/tools/" + server + "/" + name
}

func (w *world) named(id, action, hash string, rev int64, note string) attempt {
	w.T.Helper()
	body, err := json.Marshal(map[string]any{"hash": hash, "rev": rev, "note": note})
	require.OK(w.T, err)
	at := address(id) + "/" + action
	return attempt{
		api: at, body: string(body),
		page: at, form: url.Values{"hash": {hash}, "rev": {fmt.Sprint(rev)}, "note": {note}},
		command: []string{action, id, "--hash", hash, "--rev", fmt.Sprint(rev), "--note", note},
	}
}

// many returns the attempt to approve several unseen items together.
func (w *world) many(ids ...string) attempt {
	w.T.Helper()
	form, items := url.Values{"action": {"approve"}, "note": {"all"}}, []map[string]any{}
	for _, id := range ids {
		s := w.shown(id)
		items = append(items, map[string]any{"id": id, "hash": s.Hash, "rev": s.Rev})
		form.Add("item", fmt.Sprintf("%s %s %d", id, s.Hash, s.Rev))
	}
	body, err := json.Marshal(map[string]any{"action": "approve", "items": items, "note": "all", "shown": "none"})
	require.OK(w.T, err)
	return attempt{
		api: "/admin/tools", body: string(body), page: "/admin/tools", form: form,
		command: []string{"approve", "--all", "--server", "mail", "--max-tier", "destructive", "--note", "all"},
	}
}

// send lists mail:send again, with additions to its definition.
func (w *world) send(more string) {
	w.T.Helper()
	w.ByName["mail"].Tools[0] = `{"name":"send",` + more + `}`
	w.Sync()
}

func (w *world) do(id, action string) {
	w.T.Helper()
	a := w.about(id, action, "")
	w.Ask(http.StatusOK, a.api, a.body, nil)
}

func TestRefusals(t *testing.T) {
	var table strings.Builder
	table.WriteString("situation | code | sentence of the API, the page and the command\n\n")
	for _, s := range situations {
		t.Run(strings.ReplaceAll(s.name, " ", "_"), func(t *testing.T) {
			w := newWorld(t)
			a := s.set(w)
			said := w.askAPI(a)
			nothing, sentence, _ := strings.Cut(said.text, ": ")
			switch s.name {
			// in these situations a decision was made, or may have been made
			case "many: named twice", "store down":
				nothing, sentence = "nothing was", said.text
			}
			if said.code == "" || sentence == "" || !strings.HasPrefix(nothing, "nothing was") {
				t.Fatalf("the API answers %+v", said)
			}
			fmt.Fprintf(&table, "%s | %s | %s\n", s.name, said.code, sentence)
			for place, ask := range map[string]func(attempt) answer{"the page": w.askPage, "the command": w.askCommand} {
				if place == "the page" && a.page == "" || place == "the command" && a.command == nil {
					continue
				}
				if got := ask(a); !strings.Contains(oneLine(got.text), oneLine(sentence)) {
					t.Errorf("%s answers\n%s\nwant\n%s", place, got.text, sentence)
				}
			}
		})
	}
	golden.Check(t, filepath.Join("testdata", "refusals.txt"), table.String())
}

// oneLine returns a text in lower case, with single spaces.
func oneLine(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// only returns the attempt without the places that cannot send it.
func (a attempt) only(places ...string) attempt {
	has := func(place string) bool { return strings.Contains(strings.Join(places, " "), place) }
	if !has("page") {
		a.page = ""
	}
	if !has("command") {
		a.command = nil
	}
	return a
}
