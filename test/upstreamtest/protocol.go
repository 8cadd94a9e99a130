package upstreamtest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// answer answers one request of either protocol.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	req, _ := r.Context().Value(requestKey{}).(*Request)
	s.mu.Lock()
	token := s.token
	s.mu.Unlock()
	switch {
	case token != "" && r.Header.Get("Authorization") != "Bearer "+token:
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		http.Error(w, "unauthorized", http.StatusUnauthorized)
	case r.Method == http.MethodDelete && s.o.Sessions:
		s.endSession(w, r)
	case r.Method == http.MethodGet && s.o.Stream != nil && !s.ofSession(r):
		lostSession(w)
	case r.Method == http.MethodGet && s.o.Stream != nil:
		s.stream(w, r)
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", "POST")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	case !strings.Contains(r.Header.Get("Accept"), "application/json") || !strings.Contains(r.Header.Get("Accept"), "text/event-stream"):
		http.Error(w, "Accept must name application/json and text/event-stream", http.StatusNotAcceptable)
	case r.Header.Get("Content-Type") != "application/json":
		http.Error(w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
	case req != nil && req.Method == "" && s.ofSession(r) && s.takeAnswer(req.Body):
		w.WriteHeader(http.StatusAccepted)
	case req == nil || req.Method == "":
		writeError(w, http.StatusBadRequest, nil, &RPCError{Code: -32700, Message: "parse error"})
	default:
		version := rawjson.Text(req.meta.Get(mcp.MetaVersion))
		if s.o.Protocols != Legacy && (version != "" || s.o.Protocols == Modern) {
			s.modern(w, r, req, version)
		} else {
			s.legacy(w, r, req)
		}
	}
}

// ofSession reports whether a request has the headers that the handshake protocol requires.
func (s *Server) ofSession(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.Header.Get("Mcp-Protocol-Version") != "" && (!s.o.Sessions || s.sessions[r.Header.Get("Mcp-Session-Id")])
}

// modern answers a request of the stateless protocol.
func (s *Server) modern(w http.ResponseWriter, r *http.Request, req *Request, version string) {
	if e := checkModern(r, req, version); e != nil {
		writeError(w, http.StatusBadRequest, req.ID, e)
		return
	}
	switch req.Method {
	case "server/discover":
		versions, _ := json.Marshal(s.supported()) // strings always marshal
		s.result(w, req, fmt.Appendf(nil, `{"resultType":"complete","supportedVersions":%s,"capabilities":%s,"instructions":%s,"ttlMs":0,"cacheScope":"private"}`,
			versions, s.capabilities(), rawjson.Quote(s.o.Instructions)))
	case "tools/call":
		s.callTool(w, r, req, true)
	case mcp.MethodListen:
		if s.o.Stream != nil {
			s.stream(w, r)
			return
		}
		fallthrough
	default:
		if answer := s.o.Methods[req.Method]; answer != nil {
			result, err := answer(*req)
			s.reply(w, r, req, true, result, err)
			return
		}
		if member, list, ok := s.list(req.Method); ok {
			s.answerList(w, req, member, list, true)
			return
		}
		writeError(w, http.StatusNotFound, req.ID, &RPCError{Code: -32601, Message: "method not found"})
	}
}

// checkModern checks the headers and the metadata against the specification.
func checkModern(r *http.Request, req *Request, version string) *RPCError {
	mismatch := func(what string) *RPCError {
		return &RPCError{Code: -32020, Message: "header mismatch: " + what}
	}
	name := r.Header.Get("Mcp-Name")
	if enc, ok := strings.CutPrefix(name, "=?base64?"); ok {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(enc, "?="))
		if err != nil {
			return mismatch("Mcp-Name")
		}
		name = string(raw)
	}
	switch {
	case r.Header.Get("Mcp-Protocol-Version") == "", r.Header.Get("Mcp-Protocol-Version") != version:
		return mismatch("MCP-Protocol-Version")
	case version != mcp.VersionModern:
		return &RPCError{Code: -32022, Message: "unsupported protocol version",
			Data: fmt.Appendf(nil, `{"supported":[%q],"requested":%q}`, mcp.VersionModern, version)}
	case r.Header.Get("Mcp-Method") != req.Method:
		return mismatch("Mcp-Method")
	case req.Method == "tools/call" && name != req.Tool,
		strings.HasPrefix(req.Method, "tasks/") && name != rawjson.Text(req.params.Get("taskId")):
		return mismatch("Mcp-Name")
	case req.meta.Get(mcp.MetaClientCapabilities) == nil:
		return &RPCError{Code: -32602, Message: "missing clientCapabilities"}
	}
	return nil
}

func (s *Server) supported() []string {
	if s.o.Protocols == Modern {
		return []string{mcp.VersionModern}
	}
	return append([]string{mcp.VersionModern}, s.o.Versions...)
}

func (s *Server) capabilities() []byte {
	var o rawjson.Object
	items := s.listed()
	if len(s.o.Extensions) > 0 {
		var all rawjson.Object
		for _, name := range s.o.Extensions {
			all.Add(name, []byte("{}"))
		}
		o.Add("extensions", all.Bytes())
	}
	declared := []byte("{}")
	if s.o.Stream != nil {
		declared = []byte(`{"listChanged":true}`)
	}
	for name, has := range map[string]bool{
		"tools": !s.o.NoTools, "prompts": items.Prompts != nil, "resources": items.Resources != nil || items.Templates != nil, "logging": s.o.Logging,
	} {
		if has {
			o.Add(name, declared)
		}
	}
	return o.Bytes()
}

// list returns the name and the content of a method's list. ok is false if no such method exists.
func (s *Server) list(method string) (member string, list []json.RawMessage, ok bool) {
	items := s.listed()
	switch method {
	case "tools/list":
		s.mu.Lock()
		defer s.mu.Unlock()
		return "tools", s.tools, !s.o.NoTools
	case "prompts/list":
		return "prompts", items.Prompts, items.Prompts != nil
	case "resources/list":
		return "resources", items.Resources, items.Resources != nil
	case "resources/templates/list":
		return "resourceTemplates", items.Templates, items.Templates != nil
	}
	return "", nil, false
}

// legacy answers a request of the handshake protocol.
func (s *Server) legacy(w http.ResponseWriter, r *http.Request, req *Request) {
	if req.Method == "initialize" {
		s.initialize(w, req)
		return
	}
	if s.o.Sessions {
		id := r.Header.Get("Mcp-Session-Id")
		s.mu.Lock()
		known := s.sessions[id]
		s.mu.Unlock()
		switch {
		case id == "":
			writeError(w, http.StatusBadRequest, nil, &RPCError{Code: -32000, Message: "Bad Request: no session id"})
			return
		case !known:
			lostSession(w)
			return
		}
	}
	switch {
	case req.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case req.Method == "tools/call":
		s.callTool(w, r, req, false)
	case req.Method == mcp.MethodSetLevel && s.o.Logging:
		s.result(w, req, json.RawMessage("{}"))
	default:
		if member, list, ok := s.list(req.Method); ok {
			s.answerList(w, req, member, list, false)
			return
		}
		writeError(w, http.StatusOK, req.ID, &RPCError{Code: -32601, Message: "method not found"})
	}
}

func (s *Server) initialize(w http.ResponseWriter, req *Request) {
	version := rawjson.Text(req.params.Get("protocolVersion"))
	if version == "" {
		writeError(w, http.StatusOK, req.ID, &RPCError{Code: -32602, Message: "invalid params"})
		return
	}
	if !slices.Contains(s.o.Versions, version) {
		version = s.o.Versions[0]
	}
	if s.o.Sessions {
		s.mu.Lock()
		s.nextID++
		id := "session-" + strconv.Itoa(s.nextID)
		s.sessions[id] = true
		s.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", id)
	}
	s.result(w, req, fmt.Appendf(nil, `{"protocolVersion":%s,"capabilities":%s,"serverInfo":{"name":"upstreamtest","version":"1"},"instructions":%s}`,
		rawjson.Quote(version), s.capabilities(), rawjson.Quote(s.o.Instructions)))
}

// lostSession refuses a request of an unknown session.
func lostSession(w http.ResponseWriter) {
	writeError(w, http.StatusNotFound, nil, &RPCError{Code: -32001, Message: "session not found"})
}

// endSession answers a DELETE request.
func (s *Server) endSession(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	s.mu.Lock()
	known := s.sessions[id]
	delete(s.sessions, id)
	s.mu.Unlock()
	if !known {
		lostSession(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// answerList answers with one page of a list. The cursor is the number of its first item.
func (s *Server) answerList(w http.ResponseWriter, req *Request, member string, list []json.RawMessage, modern bool) {
	cursor := rawjson.Text(req.params.Get("cursor")) // "": the first page
	from := 0
	if cursor != "" {
		var err error
		if from, err = strconv.Atoi(strings.TrimPrefix(cursor, "at ")); err != nil || from < 0 || from > len(list) {
			writeError(w, http.StatusOK, req.ID, &RPCError{Code: -32602, Message: "invalid cursor"})
			return
		}
	}
	to := len(list)
	if s.o.PageSize > 0 {
		to = min(to, from+s.o.PageSize)
	}
	b := fmt.Appendf(nil, "{%q:[", member)
	for i, item := range list[from:to] {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	b = append(b, ']')
	if to < len(list) {
		b = fmt.Appendf(b, `,"nextCursor":"at %d"`, to)
	}
	if modern {
		b = append(b, `,"resultType":"complete","ttlMs":0,"cacheScope":"private"`...)
	}
	s.result(w, req, append(b, '}'))
}

func (s *Server) callTool(w http.ResponseWriter, r *http.Request, req *Request, modern bool) {
	result, err := s.o.Call(r.Context(), Call{req.Tool, req.params.Get("arguments"), req.Params, r.Header, modern})
	s.reply(w, r, req, modern, result, err)
}

// reply answers a request with a result or an error.
func (s *Server) reply(
	w http.ResponseWriter, r *http.Request, req *Request, modern bool,
	result json.RawMessage, err error,
) {
	if err == nil {
		s.result(w, req, result)
		return
	}
	if r.Context().Err() != nil {
		s.mu.Lock()
		s.cancelled++
		s.mu.Unlock()
		return
	}
	status := http.StatusOK
	e := asRPCError(err)
	if modern && (e.Code == -32602 || e.Code == -32021) {
		status = http.StatusBadRequest
	}
	writeError(w, status, req.ID, e)
}

// result writes a reply, as JSON or as an event stream with a notification before it.
func (s *Server) result(w http.ResponseWriter, req *Request, result json.RawMessage) {
	msg := slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), req.ID, []byte(`,"result":`), result, []byte(`}`))
	if !s.o.SSE {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(msg) // fails if the client has left
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, ": hello\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n")
	fmt.Fprintf(w, "event: message\nid: 1\ndata: %s\n\n", bytes.ReplaceAll(msg, []byte("\n"), []byte("\ndata: ")))
}

// writeError writes a JSON-RPC error; a nil id is written as null.
func writeError(w http.ResponseWriter, status int, id json.RawMessage, e *RPCError) {
	if id == nil {
		id = json.RawMessage("null")
	}
	data := ""
	if e.Data != nil {
		data = `,"data":` + string(e.Data)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s%s}}`, id, e.Code, rawjson.Quote(e.Message), data)
}
