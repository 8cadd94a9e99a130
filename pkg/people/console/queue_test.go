package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
)

// withServers returns a fixture in which all tools of the servers a, b and c wait: one of a, two of
// b and 60 of c. None has annotations.
func withServers(t *testing.T) *fixture {
	t.Helper()
	h := newFixture(t)
	var config1 []string
	for name, count := range map[string]int{"a": 1, "b": 2, "c": 60} {
		var tools []string
		for n := range count {
			tools = append(tools, fmt.Sprintf(`{"name":"t%02d","description":"Does it."}`, n))
		}
		h.Serve(name, tools...)
		config1 = append(
			config1,
			fmt.Sprintf(`%q:{"url":"https://%s.example.com/mcp","approval":"manual"}`, name, name),
		)
	}
	h.Put(config.Key, `{"mcpServers":{`+strings.Join(config1, ",")+`}}`)
	h.Sync()
	return h
}

// groups returns the headings of the table, each with the number of its rows.
func groups(page string) (out []string) {
	for _, part := range strings.Split(page, `<th scope="rowgroup"`)[1:] {
		_, heading, _ := strings.Cut(part, ">")
		heading, rows, _ := strings.Cut(heading, "</th>")
		heading = regexp.MustCompile(`<a.*`).ReplaceAllString(heading, "")
		heading = strings.TrimSpace(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(heading, ""))
		out = append(out, fmt.Sprint(heading, " | ", strings.Count(rows, "<tr>\n<td>")))
	}
	return out
}

// decides opens the page of an item, and presses a button on it.
func (h *fixture) decides(path, verb string) {
	h.T.Helper()
	if status, body := h.press(path, h.Page(http.StatusOK, path), verb); status != http.StatusSeeOther {
		h.T.Fatalf("%s: %d %s", verb, status, body)
	}
}

// The queue is in groups by server, which have one tick each. Without a script, the tick chooses
// the server's items on all pages.
func TestQueueInGroups(t *testing.T) {
	h := withServers(t)
	page := h.Page(http.StatusOK, queue)
	want := []string{"a: all 1 | 1", "b: all 2 | 2", "c: all 60 | 47"}
	if diff := cmp.Diff(want, groups(page)); diff != "" {
		t.Errorf("groups of the queue (-want +got):\n%s", diff)
	}
	says(t, page, `name="group" value="c"`)
	for name, test := range map[string]struct {
		groups, items []string
		want          int
		rest          string
	}{
		"one group":              {[]string{"b"}, nil, 2, ""},
		"a group and an item":    {[]string{"b"}, []string{"a:t00"}, 3, ""},
		"a group with its item":  {[]string{"b"}, []string{"b:t00"}, 2, ""},
		"more than a page shows": {[]string{"c", "a"}, nil, 50, "11 items of your choice"},
		"no agent asks":          {[]string{"*"}, nil, 0, ""},
	} {
		form := url.Values{
			"action": {"approve"},
			"status": {"pending_approval"},
			"group":  test.groups,
		}
		for _, id := range test.items {
			form.Add("item", id+" "+strings.Repeat("0", 64)+" 1")
		}
		w := h.Submit("/admin/tools/bulk", form)
		if got := len(items(w.Body)); got != test.want || !strings.Contains(w.Body, test.rest) {
			t.Errorf("%s: %d items, want %d and %q: %s", name, got, test.want, test.rest, w.Body)
		}
	}
	for path, want := range map[string]int{
		queue + "&server=b": 0, queue + "&sort=newest": 0, "/admin/tools": 3,
	} {
		if got := groups(h.Page(http.StatusOK, path)); len(got) != want {
			t.Errorf("%s has the groups %q, want %d", path, got, want)
		}
	}
	none := url.Values{"action": {"approve"}, "group": {"<none>"}}
	if w := h.Submit("/admin/tools/bulk", none); w.Status != http.StatusUnprocessableEntity {
		t.Errorf("a group that is no server: %d", w.Status)
	}
	h.be(identity.Rights{Role: identity.Viewer})
	page = h.Page(http.StatusOK, queue)
	if got := groups(page); got[2] != "c: 60 | 47" || strings.Contains(page, `name="group"`) {
		t.Errorf("a viewer sees the groups %q", got)
	}
}

// A column with the same value in every row is dropped, and the page says the value once.
func TestColumnsOfTheTable(t *testing.T) {
	h := withServers(t)
	page := h.Page(http.StatusOK, queue)
	head := regexp.MustCompile(`<thead>.*</thead>`).FindString(page)
	lacks(t, head, "Status", "Tier", "Since", "Kind")
	says(t, page, "Every row here:", "not annotated</span>, which counts as destructive")
	lacks(t, page, "· since ")
	if n := strings.Count(page, ">new<"); n != 1 {
		t.Errorf("the page says %d times that a definition is new", n)
	}
	h.ByName["b"].Tools[0] = `{"name":"t00","annotations":{"readOnlyHint":true}}`
	h.Sync()
	page = h.Page(http.StatusOK, queue)
	says(
		t,
		page,
		`<th scope="col">Tier</th>`,
		`<span class="tier read">read</span>`,
		"not annotated",
	)
	lacks(
		t,
		page,
		"counts as destructive</span>",
		"which counts as destructive",
		`<th scope="col">Status</th>`,
	)
	page = h.Page(http.StatusOK, queue+"&server=a") // one row
	says(t, page, `<th scope="col">Status</th>`, `<th scope="col">Tier</th>`)
	lacks(t, page, "Every row here")
}

// Items for which agents ask are the first group of the queue, and the first of "Review all". The
// page of an item says how many agents ask, and links to the oldest request.
func TestQueueOfAskedItems(t *testing.T) {
	h := withServers(t)
	var first string
	for n, item := range []string{"c:t59", "c:t59", "b:t01"} {
		id := h.Asks(request.Agent{Way: identity.WayJWT, ID: fmt.Sprint("bot-", n)}, item, "", "")
		if first == "" {
			first = id
		}
		h.Clock.Wait(1)
	}
	page := h.Page(http.StatusOK, queue)
	want := []string{"Agents ask for these | 2", "a: all 1 | 1", "b: all 2 | 1", "c: all 60 | 46"}
	if diff := cmp.Diff(want, groups(page)); diff != "" {
		t.Errorf("groups of the queue (-want +got):\n%s", diff)
	}
	says(t, page, "2 agents ask", "1 agent asks")
	says(
		t,
		h.Page(http.StatusOK, "/admin"),
		`class="button main push" href="./admin/tools/b/t01?status=pending_approval"`,
	)
	says(
		t,
		h.Page(http.StatusOK, "/admin/tools/c/t59"),
		`admin/requests/`+first+`">2 agents ask for it</a>`,
		"2 of 63",
	)
	lacks(t, h.Page(http.StatusOK, "/admin/tools/c/t58"), "for it</a>")
	w := h.Submit(
		"/admin/tools/bulk",
		url.Values{"action": {"approve"}, "status": {"pending_approval"}, "group": {"*"}},
	)
	var ids []string
	for _, item := range items(w.Body) {
		ids = append(ids, strings.Fields(item)[0])
	}
	if !slices.Equal(ids, []string{"b:t01", "c:t59"}) {
		t.Errorf("the tick of the asked items chooses %q", ids)
	}
	h.decides("/admin/tools/c/t59", "approve")
	if got := groups(h.Page(http.StatusOK, queue)); got[0] != "Agents ask for these | 1" {
		t.Errorf("after the approval the first group is %q", got[0])
	}
}

// Forms of people who may not send them, and of ended sessions, decide nothing and keep the note.
func TestBulkWithoutRights(t *testing.T) {
	h := withServers(t)
	form := url.Values{
		"action": {"approve"},
		"status": {"pending_approval"},
		"item":   items(h.Page(http.StatusOK, queue))[:3],
		"note":   {"typed"},
	}
	h.be(identity.Rights{Role: identity.Viewer})
	for _, action := range []string{"approve", "undo"} {
		form.Set("action", action)
		if w := h.Submit("/admin/tools", form); w.Status != http.StatusForbidden ||
			!strings.Contains(w.Body, `name="note" value="typed"`) {
			t.Errorf("%s by a viewer: %d %s", action, w.Status, w.Body)
		}
	}
	form.Set("action", "approve")
	h.be(approverOf("a"))
	sheet := h.Submit("/admin/tools/bulk", form).Body
	says(t, sheet, "1 tool<", "Skipped", "this item is of b")
	w := h.Submit("/admin/tools", form)
	says(t, w.Body, "Approved 1 tool.", "this item is of b", "Undo it")
	if h.Status("b:t00") != lock.PendingApproval || h.Status("a:t00") != lock.None {
		t.Errorf("a:t00 is %q, b:t00 is %q", h.Status("a:t00"), h.Status("b:t00"))
	}

	l := newLaptop(t)
	late := l.Submit(
		"/admin/tools",
		url.Values{
			"action": {"approve"},
			"group":  {"mail"},
			"item":   {"mail:send x 1"},
			"note":   {"typed"},
		},
	)
	if late.Status != http.StatusUnauthorized {
		t.Errorf("without a session: %d", late.Status)
	}
	says(
		t,
		late.Body,
		`name="kept.note" value="typed"`,
		`name="kept.group" value="mail"`,
		`name="kept.item" value="mail:send x 1"`,
	)
}

// Two people decide about the same items at once. Each item has one decision, and the second person
// reads about which items somebody else decided.
func TestBulkOfTwoPeople(t *testing.T) {
	h := withServers(t)
	sheet := h.Submit("/admin/tools/bulk", url.Values{"action": {"approve"}, "group": {"b"}}).Body
	form := url.Values{"action": {"approve"}, "item": items(sheet), "note": {"typed"}}
	h.decides("/admin/tools/b/t00", "block")
	w := h.Submit("/admin/tools", form)
	says(
		t,
		w.Body,
		"Approved 1 tool.",
		"b:t01",
		"has changed since you saw it",
		"by ann",
		`name="note" value="typed"`,
	)
	again := url.Values{"action": {"approve"}, "item": items(w.Body)[1:], "note": {"typed"}}
	says(
		t,
		h.Submit("/admin/tools/bulk", again).Body,
		"There is nothing to approve here",
		"Somebody blocked this definition",
		"“typed”",
	)
	if r := h.Record("b:t00"); !r.IsBlocked(r.CurrentHash) || r.Rev != 2 {
		t.Errorf("b:t00 is %+v", r)
	}
}

// A resource whose name looks like another, in letters of two alphabets, has to be opened before a
// bulk approval. Names of tools cannot have such letters.
func TestBulkOfALookalike(t *testing.T) {
	h := withServers(t)
	h.Server("b").Resources = []string{
		`{"uri":"file:///a","name":"pаyroll"}`,
		`{"uri":"file:///b","name":"payroll"}`,
	} // the first a of the first name is Cyrillic
	h.Sync()
	sheet := h.Submit(
		"/admin/tools/bulk",
		url.Values{"action": {"approve"}, "status": {"pending_approval"}, "group": {"b"}},
	).Body
	if n := strings.Count(sheet, `unread">open first<`); n != 1 {
		t.Errorf("%d definitions have to be opened: %s", n, sheet)
	}
}
