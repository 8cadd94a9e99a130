package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// client has a timeout that is longer than the gateway may take.
var client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: agents}}

func slowest(took []time.Duration) time.Duration { return slices.Max(took) }

// send sends a request and returns the answer.
func send(method, url, body string, headers ...string) (int, []byte, error) {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	return answer.StatusCode, data, err
}

// hidden contains texts that no agent may read.
var hidden = []string{"arn:", "127.0.0.1", "DynamoDB", "ProvisionedThroughput", "SlowDown", "<html>", "connection reset", "EOF"}

// rpc calls one of the gateway's tools and returns the only text of its result.
func (w *world) rpc(name, arguments string) (text string, isError bool, err error) {
	began := time.Now()
	status, data, err := send(http.MethodPost, w.mcp.URL+"/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, arguments))
	if err != nil {
		return "", false, err
	}
	w.mu.Lock()
	w.took = append(w.took, time.Since(began))
	w.mu.Unlock()
	var a struct {
		Result struct {
			IsError bool
			Content []struct{ Text string }
		}
	}
	if err := json.Unmarshal(data, &a); err != nil || status != http.StatusOK || len(a.Result.Content) != 1 {
		return "", false, fmt.Errorf("%s: status %d: %s: %w", name, status, data, errors.Join(err))
	}
	text = a.Result.Content[0].Text
	for _, h := range hidden {
		if strings.Contains(text, h) {
			w.t.Errorf("%s answers with %q: %s", name, h, text)
		}
	}
	return text, a.Result.IsError, nil
}

// search searches for existing tools, and returns the answer if it contains none.
func (w *world) search() (failed string, err error) {
	text, isError, err := w.rpc("retrieve_tools", `{"query":"read a page of the shop","include_disabled":true}`)
	if err != nil {
		return "", err
	}
	if isError {
		return text, nil
	}
	if !strings.Contains(text, `"shop:`+open+`"`) {
		w.t.Errorf("a search does not find an existing tool: %s", text)
	}
	return "", nil
}

// call calls a tool. The arguments contain mark, by which the test finds the call at the server.
func (w *world) call(id, mark string) (asked, error) {
	a := asked{tool: id, at: time.Now()}
	var err error
	a.text, a.isError, err = w.rpc("call_tool_read", fmt.Sprintf(`{"name":%q,"args":{"m":%q}}`, id, mark))
	if err != nil {
		return a, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[mark] = a
	return a, nil
}

// agent searches, and calls allowed and locked tools.
func (w *world) agent(n int, stop chan struct{}) {
	ids := []string{"shop:" + open, "shop:" + never, "mail:" + waits, "shop:" + late}
	for _, s := range switches {
		ids = append(ids, "shop:"+s)
	}
	for i := 0; !over(stop); i++ {
		failed, err := w.search()
		if err == nil && failed == "" {
			var a asked
			if a, err = w.call(ids[(i+n)%len(ids)], fmt.Sprintf("agent %d, call %d", n, i)); a.isError {
				failed = a.text
			}
		}
		if err != nil {
			w.t.Errorf("agent %d: %v", n, err)
		}
		if failed != "" {
			w.mu.Lock()
			w.errors[kind(failed)]++
			w.mu.Unlock()
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// kind shortens an agent's answer for the log.
func kind(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line[:min(90, len(line))]
}

// ask sends a request to the admin function.
func (w *world) ask(method, path, body string) (int, []byte, error) {
	return send(method, w.admin.URL+path, body, "Authorization", "Bearer "+w.key)
}

type shown struct {
	Status string
	Record struct{ Disabled bool }
}

// tool returns the state of a tool of the shop from the API.
func (w *world) tool(name string) (s shown, err error) {
	status, data, err := w.ask(http.MethodGet, "/admin/tools/shop/"+name, "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", name, status, data)
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	return s, err
}

// person disables one switch after the other, waits, and enables it again.
func (w *world) person(stop chan struct{}) {
	for i := 0; !over(stop); i++ {
		name := switches[i%len(switches)]
		if !w.decide(name, true, stop) {
			return
		}
		from := time.Now()
		time.Sleep(1500 * time.Millisecond)
		w.mu.Lock()
		w.shut = append(w.shut, interval{name, from, time.Now()})
		w.mu.Unlock()
		if !w.decide(name, false, stop) {
			return
		}
	}
}

// decide retries until an answer confirms the decision, and reports whether one did.
func (w *world) decide(name string, disable bool, stop chan struct{}) bool {
	action := map[bool]string{true: "disable", false: "enable"}[disable]
	w.mu.Lock()
	w.unsure[name] = true
	w.mu.Unlock()
	for !over(stop) {
		status, data, err := w.ask(http.MethodPost, "/admin/tools/shop/"+name+"/"+action, "{}")
		switch {
		case err != nil:
			w.t.Errorf("%s %s: %v", action, name, err)
		case status == http.StatusOK, status == http.StatusConflict && w.stands(name, disable): // the earlier answer was lost
			w.mu.Lock()
			defer w.mu.Unlock()
			w.decided[name], w.unsure[name] = disable, false
			w.done++
			return true
		case status < http.StatusInternalServerError && status != http.StatusConflict:
			w.t.Errorf("%s %s: status %d: %s", action, name, status, data)
		}
		for _, h := range hidden[:4] {
			if strings.Contains(string(data), h) {
				w.t.Errorf("the answer to %s %s contains %q: %s", action, name, h, data)
			}
		}
	}
	return false
}

// stands reports whether the API shows a switch in the state of the last decision.
func (w *world) stands(name string, disabled bool) bool {
	s, err := w.tool(name)
	return err == nil && s.Record.Disabled == disabled
}
