package console_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

// withItems returns a fixture in which a prompt, a resource, a template and a tool of mail wait.
func withItems(t testing.TB) *fixture {
	h := newFixture(t)
	mail := h.Server("mail")
	mail.Prompts = []string{`{"name":"reply","description":"Answers a mail.","arguments":[{"name":"mail","description":"Which one.","required":true},{"name":"tone"}]}`}
	mail.Resources = []string{
		`{"uri":"mail://inbox","name":"Inbox","mimeType":"text/plain","description":"What came in."}`,
		`{"uriTemplate":"mail://folders/{folder}","name":"A folder"}`,
	}
	h.Sync()
	return h
}

func addressOf(t testing.TB, id string) string { return approval.Link("/", gatewaytest.ID(t, id))[1:] }

// The page of a prompt or a resource shows its arguments or properties. It has the views for its
// kind, and the buttons to decide.
func TestReviewItems(t *testing.T) {
	for id, tt := range map[string]struct{ says, views []string }{
		"mail:prompt:reply": {
			[]string{`<span class="chip">prompt</span>`, "Parameters", `argument <code>mail</code> <span class="said">required, &#34;Which one.&#34;`, `argument <code>tone</code>`, "Answers a mail."},
			[]string{"summary", "description", "arguments", "raw"},
		},
		"mail:resource:mail://inbox": {
			[]string{`<span class="chip">resource</span>`, "Content", `mimeType <span class="said">&#34;text/plain&#34;`, "<h3>URI</h3>", ">mail://inbox</pre>", "What came in."},
			[]string{"summary", "description", "raw"},
		},
		"mail:resource:mail://folders/{folder}": {
			[]string{`<span class="chip">template</span>`, "Content", "Its type is not stated.", "<h3>URI template</h3>", ">mail://folders/{folder}</pre>"},
			[]string{"summary", "description", "raw"},
		},
	} {
		t.Run(id, func(t *testing.T) {
			h, path := withItems(t), addressOf(t, id)
			page := h.Page(http.StatusOK, path)
			says(t, page, append(tt.says, "pending approval", "of 4</b>", "Agents see: ", "to have it reviewed: "+gatewaytest.BaseURL+path)...)
			lacks(t, page, `class="tier`, "Output")
			var views []string
			for _, m := range regexp.MustCompile(`\?view=(\w+)"`).FindAllStringSubmatch(page, -1) {
				views = append(views, m[1])
			}
			if got, want := strings.Join(views, " "), strings.Join(tt.views, " "); got != want {
				t.Errorf("views %s, want %s", got, want)
			}
			for _, view := range tt.views {
				lacks(t, h.Page(http.StatusOK, path+"?view="+view), "nothing of this kind")
			}
			says(t, h.Page(http.StatusOK, path+"/history"), "seen for the first time")
			says(t, h.Page(http.StatusOK, path+"?from="+strings.Repeat("a", 64)+"&to="+strings.Repeat("b", 64)), "Decide about the "+gatewaytest.ID(t, id).Kind.String())
			if a := h.Send(path+"/text?of=raw", "", browser); a.Status != http.StatusOK || !strings.Contains(a.Body, `"name"`) {
				t.Errorf("text: %d %s", a.Status, a.Body)
			}
			if a := h.Send(path+"/text?of=input", "", browser); a.Status != http.StatusNotFound || !strings.Contains(a.Body, "it has: ") {
				t.Errorf("no such text: %d", a.Status)
			}
			for _, step := range []struct {
				press string
				want  lock.Status
			}{
				{"approve", lock.None},
				{"disable", lock.DisabledByUser},
				{"enable", lock.None},
				{"block", lock.DisabledByUser},
				{"undo", lock.None},
			} {
				if status, body := h.press(path, h.Page(http.StatusOK, path), step.press); status != http.StatusSeeOther {
					t.Fatalf("%s = %d %s", step.press, status, body)
				}
				if s := h.Status(id); s != step.want {
					t.Errorf("after %s: status %q, want %q", step.press, s, step.want)
				}
				to := "/" + strings.TrimLeft(h.Location, "./")
				says(t, h.Page(http.StatusOK, to), `class="message"`, html.EscapeString(id))
			}
		})
	}
}

// The queue contains all kinds, one after the other, and its lists name the kind of each item.
func TestQueueOfKinds(t *testing.T) {
	h := withItems(t)
	inbox := h.Page(http.StatusOK, "/admin")
	says(t, inbox, "Review all 4", `data-say="4 items waiting"`, `mail <b>4</b>`)
	list := h.Page(http.StatusOK, "/admin/tools?status=pending_approval")
	says(t, list, "<h1>Tools, prompts and resources</h1>", "4 items", `<th scope="col">Kind</th>`, `<span class="tier">prompt</span>`, `<span class="tier">resource</span>`, `<span class="tier">template</span>`, `<span class="tier">tool</span>`, "mail:<b>mail://inbox</b>", "Inbox: What came in.", "2 arguments · Answers a mail.", `<option value="prompt">prompt (1)</option>`)
	says(t, h.Page(http.StatusOK, "/admin/tools?kind=prompt"), "<b>1 prompt</b>", `<option value="prompt" selected>`)
	says(t, h.Page(http.StatusOK, "/admin/tools?kind=prompt&q=nothing+of+this"), "No prompt matches the filter")
	if a := h.Send("/admin/resources", "", browser); a.Status != http.StatusSeeOther || a.Header.Get("Location") != "./tools?kind=resource" {
		t.Errorf("/admin/resources: %d to %s", a.Status, a.Header.Get("Location"))
	}
	says(t, h.Page(http.StatusOK, "/admin/servers"), "1 prompt</a>", "2 resources</a>")
	says(t, h.Page(http.StatusOK, "/admin/servers/mail"), `kind=prompt&amp;server=mail">Prompts</a>`, `kind=resource&amp;server=mail&amp;status=pending_approval" class="chip pending_approval">pending approval 2</a>`)
	all := items(list)
	says(t, h.Submit("/admin/tools/bulk", url.Values{"action": {"block"}, "item": all}).Body, "Block several items", "mail: 1 not annotated, 1 prompt, 2 resources", "Block the ticked items</button>")
	says(t, h.Submit("/admin/tools", url.Values{"action": {"block"}, "item": all}).Body, "Blocked 4 items.")
}

// A page never turns a URI into a link or into markup. Where it clips a URI, it also shows the
// whole URI in a box. Invisible characters become visible, and no page is too long.
func TestHostileURIs(t *testing.T) {
	h := newFixture(t)
	mail := h.Server("mail")
	uris := []string{
		`javascript:alert(1)`, `data:text/html,<script>alert(1)</script>`, `https://evil.example.com/"><img/src=x>`,
		"x:" + strings.Repeat("+", tool.MaxURI-2), "y:" + strings.Repeat("<++++++++++", 186), "file:///a/../../b", "a:%00",
	}
	for n := range 60 {
		uris = append(uris, fmt.Sprintf("z:%s%02d", strings.Repeat("&+++++++++", 200), n))
	}
	for _, uri := range uris {
		mail.Resources = append(mail.Resources, fmt.Sprintf(`{"uri":%q,"name":%q,"mimeType":%q}`, uri, "<b>n\u202eame</b>", "<i>\u200b"))
	}
	h.Sync()
	for _, uri := range uris[:8] {
		path := addressOf(t, "mail:resource:"+uri)
		page := h.small(path)
		says(t, page, `">`+strings.ReplaceAll(html.EscapeString(uri[:min(len(uri), 8)]), "+", "&#43;"))
		lacks(t, page, `href="javascript:`, `href="data:`, `href="https://evil`, "<script>alert", "<img", "<b>n", "\u202e", "\u200b", "This is not all of it")
		says(t, page, "required to approve")
		h.small(path + "?view=description")
		h.small(path + "/history")
		a := h.Submit(path+"/disable", url.Values{"rev": {h.Field(page, "rev")}, "hash": {h.Field(page, "hash")}})
		if to := a.Header.Get("Location"); a.Status != http.StatusSeeOther || len(to) > 512 {
			t.Errorf("the redirect has %d bytes", len(to))
		}
	}
	seen, _ := h.walk("/admin/tools?kind=resource", `href="[./]*(/admin/resources/[^?"]+)`)
	once(t, seen, len(uris))
	list := h.Page(http.StatusOK, "/admin/tools?kind=resource")
	lacks(t, list, "<b>n", "\u200b", `href="javascript:`)
	h.small("/admin")
	var items []string
	for _, row := range admintest.Into[decide.Page](h.Fixture, "/admin/tools?kind=resource&limit=5", "").Tools {
		items = append(items, fmt.Sprintf("%s %s %d", row.ID, row.Hash, row.Rev))
	}
	w := h.Submit("/admin/tools/bulk", url.Values{"action": {"block"}, "item": items})
	lacks(t, w.Body, "<b>n", `href="javascript:`, "<img")
}

// The page of a server shows the lists that the sync could not read, the refused items, and the
// settings for prompts and resources.
func TestServerOfItems(t *testing.T) {
	h := withItems(t)
	h.Put(config.Key, strings.Replace(admintest.Config, `"approval": "manual"`,
		`"approval": "manual", "resources": "on_change", "disabled_prompts": ["re*"], "disabled_resources": ["mail://folders/*"], "unlisted_resources": true`, 1))
	mail := h.Server("mail")
	mail.Prompts = append(mail.Prompts, `{"name":"no name"}`)
	mail.Outcome.Unread = []outcome.Unread{{List: outcome.ListTemplates, Reason: "timeout", Error: "no answer in 5s"}}
	h.Sync()
	page := h.Page(http.StatusOK, "/admin/servers/mail")
	says(t, page, "its templates, which keep their last state: timeout", "no answer in 5s", "prompt <b>", "manual; of prompts and resources on change",
		"Not these prompts<dd><code>re*</code>", "Not these resources<dd><code>mail://folders/*</code>", "Unlisted resources<dd>readable")
	says(t, page, "disabled by config 1") // the template is still there
}
